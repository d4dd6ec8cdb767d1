//! What a person typed may have a password in it, in the wrong place. An error of the command line repeats what was typed, so it
//! is taken out of it here. Pure, but for [`given`].

/// Stands for what is left out.
const HIDDEN: &str = "[not shown]";

/// Names of properties whose values are secrets.
const SECRET: [&str; 5] = ["password", "passwd", "secret", "token", "key"];

/// What this process was given from outside: its arguments, values behind `=` too, and our variables.
pub(crate) fn given() -> Vec<String> {
    let arguments = std::env::args_os().skip(1).map(|argument| argument.to_string_lossy().into_owned());
    let values = |argument: String| {
        let value = argument.split_once('=').map(|(_, value)| value.to_owned());
        std::iter::once(argument).chain(value)
    };
    let variables = std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("KEYLANE_"));
    arguments.flat_map(values).chain(variables.map(|(_, value)| value.to_string_lossy().into_owned())).collect()
}

/// The text without what could be a secret of what was given; `None` if nothing of it is in there.
pub(crate) fn redacted(text: &str, given: &[String]) -> Option<String> {
    let mut suspects: Vec<&String> = given.iter().filter(|value| may_have_a_secret(value)).collect();
    // The longest first: a part of one may be another.
    suspects.sort_by_key(|value| std::cmp::Reverse(value.len()));
    let whole = suspects.iter().fold(text.to_owned(), |text, value| text.replace(value.as_str(), HIDDEN));
    // A parser may repeat a part: one server of several, or what stands behind a scheme.
    let is_a_part = |word: &str| {
        word.contains(['@', '?', '='])
            && suspects.iter().any(|value| value.contains(word.trim_end_matches(['.', ':', ','])))
    };
    let words = whole.split_inclusive([' ', '\n', '\'', '"', '`', ',']);
    let cleaned: String = words
        .map(|piece| {
            let word = piece.trim_end_matches([' ', '\n', '\'', '"', '`', ',']);
            if is_a_part(word) { piece.replacen(word, HIDDEN, 1) } else { piece.to_owned() }
        })
        .collect();
    (cleaned != text).then_some(cleaned)
}

/// User info, a query, or a property that is named as a secret is.
fn may_have_a_secret(value: &str) -> bool {
    let names_one = |name: &str| SECRET.iter().any(|secret| name.to_lowercase().contains(secret));
    let assigns = value.split_once('=').is_some_and(|(name, _)| names_one(name));
    value.contains('@') || (value.contains('?') && value.contains('=')) || assigns
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str, given: &[&str]) -> Option<String> {
        redacted(text, &given.iter().map(ToString::to_string).collect::<Vec<_>>())
    }

    #[test]
    fn what_could_be_a_secret_is_left_out_whole_and_in_part() {
        let url = "kafka://one:9092,ann:MARKER@h:9092";
        let text = "invalid value 'kafka://one:9092,ann:MARKER@h:9092' for '--broker <URL>': 'ann:MARKER@h' is no host";
        let cleaned = of(text, &[url]).unwrap();
        assert_eq!(cleaned, "invalid value '[not shown]' for '--broker <URL>': '[not shown]' is no host");
        for given in ["sasl.password=MARKER", "http://h/?t=MARKER", "ann:MARKER@h/db"] {
            assert!(
                !of(&format!("unexpected argument '{given}' found"), &[given]).unwrap().contains("MARKER"),
                "{given}"
            );
        }
    }

    #[test]
    fn all_else_stays_as_it_is() {
        let text = "invalid value 'x' for '--store <URL>': write postgres://USER@HOST/DATABASE";
        assert_eq!(of(text, &["x", "--partitions=4", "kafka://one:9092"]), None);
        assert_eq!(of("unexpected argument '--partitons=4' found", &["--partitons=4"]), None);
    }
}
