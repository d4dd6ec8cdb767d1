use super::*;

fn at(pointer: &str, document: &str) -> Result<Option<String>, Rule> {
    let pointer: Pointer = pointer.parse().unwrap();
    pointer.value_in(document).map(|v| v.map(|v| v.get().to_owned())).map_err(|f| f.rule)
}

fn found(text: &str) -> Result<Option<String>, Rule> {
    Ok(Some(text.to_owned()))
}

#[test]
fn a_value_comes_as_the_source_writes_it() {
    assert_eq!(at("/key", r#"{"a":1,"key":"x\u0041"}"#), found(r#""x\u0041""#));
    assert_eq!(at("/n", r#"{"n": 9007199254740993.10 }"#), found("9007199254740993.10"));
    assert_eq!(at("/o", r#"{"o":{ "a" : [1, 2] }}"#), found(r#"{ "a" : [1, 2] }"#));
    assert_eq!(at("", r#""whole""#), found(r#""whole""#));
    assert_eq!(at("/a/1/b", r#"{"a":[0,{"b":true}]}"#), found("true"));
}

#[test]
fn names_are_compared_after_decoding_and_pointers_unescaped() {
    assert_eq!(at("/key", r#"{"k\u0065y":1}"#), found("1"));
    assert_eq!(at("/a~1b~0c", r#"{"a/b~c":1}"#), found("1"));
    assert_eq!(at("/", r#"{"":1}"#), found("1"));
}

#[test]
fn what_is_not_there_is_missing_and_no_fault() {
    for (pointer, document) in [
        ("/key", "{}"),
        ("/key", "[]"),
        ("/key", "null"),
        ("/key", "1"),
        ("/key", "-1"),
        ("/key", "1.5"),
        ("/key", "true"),
        ("/key", r#""text""#),
        ("/key/x", r#"{"key":"text"}"#),
        ("/2", "[0,1]"),
        ("/01", "[0,1]"),
        ("/-", "[0,1]"),
        ("/+1", "[0,1]"),
    ] {
        assert_eq!(at(pointer, document), Ok(None), "{pointer} in {document}");
    }
}

#[test]
fn a_name_that_is_twice_on_the_way_is_a_fault_and_elsewhere_it_is_not() {
    assert_eq!(at("/key", r#"{"key":"a","key":"a"}"#), Err(Rule::FieldTwice));
    assert_eq!(at("/key", r#"{"key":"a","k\u0065y":"b"}"#), Err(Rule::FieldTwice), "the same name in other letters");
    assert_eq!(at("/a/key", r#"{"a":{"key":1},"a":{"key":2}}"#), Err(Rule::FieldTwice));
    assert_eq!(at("/a/key", r#"{"a":{"key":1,"key":1}}"#), Err(Rule::FieldTwice));
    assert_eq!(at("/key", r#"{"key":"a","x":1,"x":2}"#), found(r#""a""#));
}

#[test]
fn a_document_of_any_depth_off_the_way_passes() {
    for depth in [127, 129, 100_000] {
        let deep = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        let document = format!(r#"{{"deep":{deep},"key":"k","more":{{"a":{deep}}}}}"#);
        assert_eq!(at("/key", &document), found(r#""k""#));
        let objects = format!("{}1{}", r#"{"a":"#.repeat(depth), "}".repeat(depth));
        assert_eq!(at("/key", &format!(r#"{{"key":{objects}}}"#)), found(&objects), "deep at the pointer itself");
        assert_eq!(at("/key", &deep), Ok(None));
    }
}

#[test]
fn the_whole_document_must_be_json() {
    for document in
        ["", "{", r#"{"key":"k""#, r#"{"key":"k"} x"#, r#"{"key":"k"}{"#, r#"{"key":"k","a":01}"#, "\u{feff}{}"]
    {
        assert_eq!(at("/key", document), Err(Rule::NotJson), "{document}");
    }
}

#[test]
fn a_lone_surrogate_in_another_field_is_none_of_our_business() {
    assert_eq!(at("/key", r#"{"\ud800":"\ud800","key":"k"}"#), found(r#""k""#));
}

#[test]
fn pointers_that_cannot_be_are_refused_with_the_right_spelling() {
    assert!("key".parse::<Pointer>().unwrap_err().contains("'/key'"));
    assert!("/a~2".parse::<Pointer>().unwrap_err().contains("~0"));
    assert!("/a".repeat(101).parse::<Pointer>().unwrap_err().contains("100"));
    let deepest = "/a".repeat(100);
    let document = format!("{}1{}", r#"{"a":"#.repeat(100), "}".repeat(100));
    assert_eq!(at(&deepest, &document), found("1"), "the longest pointer stays below the parser's limit");
}

#[test]
fn field_names_are_a_hint() {
    assert_eq!(field_names(r#"{"id":1,"kee":[2],"x":3}"#, 2), ["id", "kee"]);
    assert!(field_names("[1]", 2).is_empty());
}

proptest::proptest! {
    #[test]
    fn no_text_makes_it_panic(text in "\\PC*", json in r#"[\[\]{}":,0-9a\\ ]{0,60}"#) {
        let _ = at("/a", &text);
        let _ = at("/a/0", &json);
    }
}
