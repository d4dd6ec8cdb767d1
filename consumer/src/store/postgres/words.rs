//! What an effect may not say, by the first word of its statement.
//!
//! An effect speaks in the extended protocol, one statement at a time, so the first word tells all: no second statement
//! hides behind a semicolon, and neither a function nor a block (`DO`) can end a transaction that was begun outside of it.

/// The rule that a statement breaks, if it breaks one.
pub(super) fn denied(sql: &str) -> Option<&'static str> {
    let mut words = words(sql);
    let first = words.next().unwrap_or_default();
    Some(match first.to_ascii_uppercase().as_str() {
        "BEGIN" | "START" | "COMMIT" | "END" | "ROLLBACK" | "ABORT" | "SAVEPOINT" | "RELEASE" => {
            "an effect may not begin or end a transaction"
        }
        "PREPARE" | "EXECUTE" | "DEALLOCATE" | "DISCARD" | "LISTEN" | "UNLISTEN" | "LOAD" | "RESET" | "DECLARE" => {
            "an effect may not leave anything in the session: the next transaction may be in another one"
        }
        "SET" if !words.next().is_some_and(|word| word.eq_ignore_ascii_case("LOCAL")) => {
            "an effect may change settings by SET LOCAL only"
        }
        "COPY" => "an effect may not COPY: insert from unnest instead",
        _ => return None,
    })
}

/// The words at the start of a statement, comments left out.
fn words(sql: &str) -> impl Iterator<Item = &str> {
    let mut rest = sql;
    std::iter::from_fn(move || {
        rest = without_comments(rest);
        let end = rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len());
        let (word, more) = rest.split_at(end);
        rest = more;
        (!word.is_empty()).then_some(word)
    })
}

fn without_comments(mut sql: &str) -> &str {
    loop {
        // A semicolon before the first statement is an empty statement.
        sql = sql.trim_start_matches(|c: char| c.is_whitespace() || c == ';');
        if let Some(comment) = sql.strip_prefix("--") {
            sql = comment.find(['\n', '\r']).map_or("", |end| &comment[end..]);
        } else if sql.starts_with("/*") {
            sql = after_block(sql);
        } else {
            return sql;
        }
    }
}

/// Block comments nest.
fn after_block(sql: &str) -> &str {
    let (mut depth, mut at) = (0_usize, 0);
    while let Some(found) = sql[at..].find("/*").into_iter().chain(sql[at..].find("*/")).min() {
        depth = if sql[at + found..].starts_with("/*") { depth + 1 } else { depth - 1 };
        at += found + 2;
        if depth == 0 {
            return &sql[at..];
        }
    }
    ""
}

#[cfg(test)]
mod tests {
    use super::denied;

    #[test]
    fn the_first_word_tells_however_it_is_dressed() {
        for sql in [
            "COMMIT",
            " commit work",
            "-- all done\n Commit",
            "/* a /* nested */ one */ROLLBACK",
            "\t/**/ end;",
            ";COMMIT",
            "PREPARE TRANSACTION 'x'",
            "SET statement_timeout = 0",
            "SET /* not */ SESSION x = 1",
            "abort",
            "COPY t FROM STDIN",
        ] {
            assert!(denied(sql).is_some(), "{sql}");
        }
        for sql in
            ["INSERT INTO commit VALUES (1)", "SET LOCAL x = 1", "/* COMMIT */ SELECT 1", "", "-- COMMIT", "/* open"]
        {
            assert_eq!(denied(sql), None, "{sql}");
        }
    }
}
