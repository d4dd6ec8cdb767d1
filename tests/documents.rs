//! What the documents say of the code is true: tests that they name exist, files that they link to are there.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

use std::path::{Path, PathBuf};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every file below the folder that ends like this, build output left out.
fn files(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() {
            if !name.starts_with('.') && name != "target" {
                found.extend(files(&path, ending));
            }
        } else if name.ends_with(ending) {
            found.push(path);
        }
    }
    found
}

#[test]
fn every_test_that_the_guarantees_name_exists() {
    let text = std::fs::read_to_string(root().join("docs/guarantees.md")).unwrap();
    let named: Vec<&str> = text.split('`').skip(1).step_by(2).filter(|word| word.matches('_').count() >= 3).collect();
    let code: String = files(root(), ".rs").iter().map(|file| std::fs::read_to_string(file).unwrap()).collect();
    let missing: Vec<_> = named
        .iter()
        .filter(|name| !code.contains(&format!("fn {name}(")) && !code.contains(&format!("fn {name}<")))
        .collect();
    assert!(named.len() > 40, "the names are found: {}", named.len());
    assert!(missing.is_empty(), "no such test: {missing:#?}");
}

#[test]
fn every_link_between_the_documents_leads_somewhere() {
    let mut broken = Vec::new();
    for document in files(root(), ".md") {
        let text = std::fs::read_to_string(&document).unwrap();
        for target in text.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next()) {
            let is_web = target.contains("://") || target.is_empty();
            if !is_web && !document.parent().unwrap().join(target).exists() {
                broken.push(format!("{}: {target}", document.display()));
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
}
