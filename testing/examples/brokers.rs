//! Three brokers on loopback for a benchmark, until standard input ends. It prints where they are, and a program for
//! `keylane bench kafka --end-coordinator`, which kills a group's coordinator and starts it again 45 s later.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    net::{Ipv4Addr, TcpListener, TcpStream},
    os::unix::fs::PermissionsExt as _,
    sync::Arc,
    time::Duration,
};

use anyhow::Result;
use keylane_testing::kafka::{Cluster, Options};

const DEAD: Duration = Duration::from_secs(45);

fn main() -> Result<()> {
    let cluster = Arc::new(Cluster::start(&Options::new(3))?);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let folder = tempfile::tempdir()?;
    let program = folder.path().join("end-coordinator");
    let port = listener.local_addr()?.port();
    let text = format!(
        "#!/usr/bin/env bash\nexec 3<>/dev/tcp/127.0.0.1/{port} && echo \"$1\" >&3 && read -r said <&3 && [ \"$said\" = done ]\n"
    );
    std::fs::write(&program, text)?;
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o700))?;
    println!("kafka://{}\n{}", cluster.bootstrap(), program.display());
    let served = Arc::clone(&cluster);
    std::thread::spawn(move || {
        for asked in listener.incoming().flatten() {
            if let Err(error) = end_coordinator(&served, asked) {
                eprintln!("{error:?}");
            }
        }
    });
    std::io::copy(&mut std::io::stdin(), &mut std::io::sink())?;
    Ok(())
}

fn end_coordinator(cluster: &Arc<Cluster>, mut asked: TcpStream) -> Result<()> {
    let mut group = String::new();
    BufReader::new(asked.try_clone()?).read_line(&mut group)?;
    let broker = cluster.coordinator(group.trim())?;
    cluster.kill(broker)?;
    eprintln!("killed broker {broker}, the coordinator of {}", group.trim());
    asked.write_all(b"done\n")?;
    let cluster = Arc::clone(cluster);
    std::thread::spawn(move || {
        std::thread::park_timeout(DEAD);
        match cluster.restart(broker).and_then(|()| cluster.wait_ready()) {
            Ok(()) => eprintln!("broker {broker} is back"),
            Err(error) => eprintln!("{error:?}"),
        }
    });
    Ok(())
}
