//! Files that are not there, not ours, or not whole: the right answer, and the file as it was.

use std::{collections::BTreeMap, fs, path::Path, sync::Barrier};

use super::{
    children::{Child, says},
    *,
};
use crate::{
    Error,
    sqlite::{self, Purpose},
};

fn refused(path: &Path, open: Open) -> Error {
    let error = LocalLog::open(path, open, Patience::Brisk).err().expect("it is refused");
    let text = format!("{error} / {}", error.detail().remedy_text().expect("there is a remedy"));
    assert!(text.contains(path.file_name().unwrap().to_str().unwrap()), "the file is named: {text}");
    error
}

/// Every file of a folder, byte for byte.
fn contents(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let paths = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    paths.map(|path| (path.clone(), fs::read(&path).unwrap())).collect()
}

/// A database of someone else, left by a crash with its log not yet brought in.
fn crashed_stranger(folder: &Path) -> PathBuf {
    let alive = folder.join("alive.db");
    let connection = Connection::open(&alive).unwrap();
    connection
        .execute_batch("PRAGMA journal_mode=WAL; CREATE TABLE theirs (a); INSERT INTO theirs VALUES (1)")
        .unwrap();
    let crashed = folder.join("crashed");
    fs::create_dir(&crashed).unwrap();
    for end in ["", "-wal"] {
        fs::copy(folder.join(format!("alive.db{end}")), crashed.join(format!("theirs.db{end}"))).unwrap();
    }
    crashed.join("theirs.db")
}

#[test]
fn a_missing_file_is_made_only_when_asked() {
    let files = Files::new();
    assert!(matches!(refused(&files.path(), Open::Existing), Error::NotFound(_)));
    fs::write(files.path(), b"").unwrap();
    assert!(matches!(refused(&files.path(), Open::Existing), Error::NotFound(_)));
    assert_eq!(fs::read(files.path()).unwrap(), b"");
    files.log();
    LocalLog::open(&files.path(), Open::Existing, Patience::Brisk).unwrap();
}

#[test]
fn a_stranger_s_database_is_left_byte_for_byte() {
    let folder = tempfile::tempdir().unwrap();
    let theirs = crashed_stranger(folder.path());
    let before = contents(theirs.parent().unwrap());
    for open in [Open::Existing, Open::Create] {
        assert!(matches!(refused(&theirs, open), Error::Invalid(_)));
        assert!(contents(theirs.parent().unwrap()) == before, "{open:?} left it as it was");
    }
}

/// The twin: opened without the look at its first bytes, the same file changes.
#[test]
fn without_the_look_a_stranger_s_database_would_change() {
    let folder = tempfile::tempdir().unwrap();
    let theirs = crashed_stranger(folder.path());
    let before = contents(theirs.parent().unwrap());
    drop(sqlite::open(&theirs, Purpose::Store, Patience::Brisk).unwrap());
    assert!(contents(theirs.parent().unwrap()) != before);
}

#[test]
fn a_file_that_is_no_database_is_left_byte_for_byte() {
    let files = Files::new();
    for bytes in [&b"{}"[..], &[b'x'; 5_000], b"SQLite format 3\0", &[0; 4_096]] {
        fs::write(files.path(), bytes).unwrap();
        for open in [Open::Existing, Open::Create] {
            assert!(matches!(refused(&files.path(), open), Error::Corrupt(_)));
        }
        assert_eq!(contents(files.0.path()).into_values().collect::<Vec<_>>(), [bytes]);
    }
}

#[test]
fn a_file_that_was_cut_off_is_corrupt() {
    let files = Files::new();
    let mut log = files.log();
    let queue = queue(&mut log, 1, seven_days());
    fill(&mut log, &queue, 2_000);
    drop(log);
    let whole = fs::read(files.path()).unwrap();
    for length in [whole.len() / 2, whole.len() - 4_096, 4_096, 512, 99] {
        fs::write(files.path(), &whole[..length]).unwrap();
        let error = refused(&files.path(), Open::Existing);
        assert!(matches!(error, Error::Corrupt(_)), "cut to {length} bytes: {error:?}");
    }
    fs::write(files.path(), &whole).unwrap();
    assert_eq!(read_all(&mut files.log(), &queue, Partition(0)).len(), 2_000);
}

#[test]
fn a_file_of_a_newer_version_is_refused() {
    let files = Files::new();
    files.log();
    files.sqlite().pragma_update(None, "user_version", 2).unwrap();
    let error = refused(&files.path(), Open::Create);
    assert!(matches!(error, Error::Invalid(_)), "{error:?}");
    assert!(error.to_string().contains("format 2"), "{error}");
    assert!(error.detail().remedy_text().unwrap().contains("newer"), "{error:?}");
}

#[test]
fn a_path_that_cannot_hold_a_file_is_refused() {
    let files = Files::new();
    fs::write(files.path(), b"a file").unwrap();
    assert!(matches!(refused(&files.path().join("below-a-file.db"), Open::Create), Error::NotFound(_)));
    assert!(matches!(refused(&files.0.path().join("missing/queue.db"), Open::Create), Error::NotFound(_)));
    assert!(matches!(refused(files.0.path(), Open::Create), Error::Invalid(_)));
    let too_long = files.0.path().join("q".repeat(300));
    assert!(matches!(refused(&too_long, Open::Create), Error::Refused(_)));
}

/// `/proc` lets nobody make a file, root included.
#[cfg(target_os = "linux")]
#[test]
fn a_folder_that_cannot_be_written_is_refused() {
    let error = refused(Path::new("/proc/queue.db"), Open::Create);
    assert!(matches!(error, Error::Refused(_)), "{error:?}");
    assert!(error.detail().remedy_text().unwrap().contains("writable"), "{error:?}");
}

#[test]
fn threads_that_make_one_file_at_once_all_get_it() {
    for _ in 0..20 {
        let files = Files::new();
        let start = Barrier::new(4);
        let clusters: Vec<Box<str>> = std::thread::scope(|scope| {
            let open = || {
                start.wait();
                files.log().cluster
            };
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(open)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(clusters.iter().all(|cluster| *cluster == clusters[0]), "{clusters:?}");
    }
}

#[test]
fn processes_that_make_one_file_at_once_all_get_it() {
    for _ in 0..10 {
        let files = Files::new();
        let mut children: Vec<_> = (0..4).map(|_| Child::OpenNewFile.start(&files.path(), 0)).collect();
        let clusters: Vec<String> = children
            .iter_mut()
            .flat_map(|child| {
                let said: Vec<String> = says(child.stdout.take().unwrap()).collect();
                assert!(child.wait().unwrap().success());
                said
            })
            .collect();
        assert_eq!(clusters.len(), 4);
        assert!(clusters.iter().all(|cluster| *cluster == clusters[0]), "{clusters:?}");
    }
}
