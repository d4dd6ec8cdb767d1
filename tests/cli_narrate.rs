//! `keylane narrate` with a model: what the model gets, and what becomes of what it says.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

#[allow(dead_code, unreachable_pub, reason = "each test file uses a part of it")]
mod process;

use process::{
    Place,
    stub::{Manner, Stub},
};
use serde_json::{Value, json};

const EXAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/schemas/snapshot.example.json");
const SECRET: &str = "MARKER-hunter2-MARKER";

fn completion(text: &str) -> Stub {
    Stub::that_says(200, "", &json!({ "choices": [{ "message": { "content": text } }] }).to_string())
}

fn narrate(place: &Place, model: &Stub, more: &[&str]) -> process::Ended {
    let url = format!("http://{}/v1/chat/completions", model.address);
    place.write("key", SECRET);
    let args = ["narrate", EXAMPLE, "--model-url", &url, "--model", "m-1", "--model-key-file", "key", "-vvv"];
    let ended = place.run(&[&args[..], more].concat());
    assert!(!ended.stdout.contains("MARKER") && !ended.stderr.contains("MARKER"), "{} {}", ended.stdout, ended.stderr);
    ended
}

#[test]
fn a_model_gets_the_snapshot_and_a_fixed_instruction_and_its_answer_is_marked_as_advice() {
    let place = Place::new();
    let without = place.run(&["narrate", EXAMPLE]).expect(0).stdout;
    let model = completion("Look at partition 5.\nThen at 3.");
    let told = narrate(&place, &model, &[]).expect(0).stdout;
    let advice = told.strip_prefix(&without).unwrap_or_else(|| panic!("the rest is as without a model: {told}"));
    let head =
        format!("Advice of the model m-1 at http://{}. Nobody checked it, and nothing acts on it:", model.address);
    assert_eq!(advice.lines().collect::<Vec<_>>(), [&head, "  | Look at partition 5.", "  | Then at 3."]);
    let asked = narrate(&place, &model, &["-o", "json"]).expect(0).json();
    assert_eq!(asked["advice"]["text"], "Look at partition 5.\nThen at 3.");

    let requests = model.requests();
    assert!(requests[0].head.starts_with("post /v1/chat/completions http/1.1"), "{}", requests[0].head);
    assert!(requests[0].head.contains("authorization: bearer marker-hunter2-marker"));
    let mut body: Value = serde_json::from_str(&requests[0].body).unwrap();
    let said = body["messages"][1]["content"].take();
    let shown: Value = serde_json::from_str(said.as_str().unwrap()).unwrap();
    let example: Value = serde_json::from_slice(&std::fs::read(EXAMPLE).unwrap()).unwrap();
    assert_eq!(shown, example, "the snapshot, and nothing else");
    let instruction = body["messages"][0]["content"].take();
    let rest = json!({ "model": "m-1", "stream": false, "messages": [
        { "role": "system", "content": null }, { "role": "user", "content": null } ]});
    assert_eq!(body, rest);
    let second: Value = serde_json::from_str(&requests[1].body).unwrap();
    assert_eq!(second["messages"][0]["content"], instruction, "it is fixed");
    let names = example["workers"].as_array().unwrap().iter().map(|w| w["worker"].as_str().unwrap());
    assert!(names.into_iter().all(|name| !instruction.as_str().unwrap().contains(name)));
}

#[test]
fn no_model_is_asked_unless_one_is_named_and_a_snapshot_that_holds_a_token_is_sent_to_none() {
    let place = Place::new();
    let model = completion("x");
    let url = format!("http://{}", model.address);
    place.run(&["narrate", EXAMPLE]).expect(0);
    place.run(&["narrate", EXAMPLE, "--model-url", &url]).expect(2);
    place.run(&["narrate", EXAMPLE, "--model-url", "http://models.example/", "--model", "m"]).expect(2);
    let with_token = std::fs::read_to_string(EXAMPLE).unwrap().replacen('{', "{\"generation\":918273645,", 1);
    place.run_with_input(&["narrate", "-", "--model-url", &url, "--model", "m"], with_token).expect(3);
    assert_eq!(model.bytes().len(), 0);
}

#[test]
fn what_a_model_says_is_text_and_cannot_act_on_a_terminal_or_pass_for_ours() {
    let place = Place::new();
    let model = completion("\u{1b}[2J\u{202e}evil\u{7}\r\nOne contradiction:\n\u{2028}<script>");
    let told = narrate(&place, &model, &[]).expect(0).stdout;
    let bad = |c: char| (c.is_control() && c != '\n') || matches!(c, '\u{202e}' | '\u{2028}');
    assert!(!told.contains(bad), "{told:?}");
    let (_, advice) = told.split_once("nothing acts on it:\n").unwrap();
    assert!(advice.lines().all(|line| line.starts_with("  | ")), "{advice}");
    let long = completion(&"word ".repeat(10_000));
    let told = narrate(&place, &long, &[]).expect(0).stdout;
    assert!(told.len() < 8_000 && told.ends_with("(it said more)\n"));
}

#[test]
fn a_model_that_fails_hangs_or_talks_for_ever_costs_its_advice_and_no_more() {
    let place = Place::new();
    let without = place.run(&["narrate", EXAMPLE]).expect(0).stdout;
    let elsewhere = completion("stolen");
    let redirect = format!("HTTP/1.1 307 x\r\nlocation: http://{}/\r\ncontent-length: 0\r\n\r\n", elsewhere.address);
    for (manner, trouble) in [
        (Manner::Says("HTTP/1.1 500 x\r\ncontent-length: 6\r\n\r\nMARKER".to_owned()), "it answered 500"),
        (Manner::Says(redirect), "it answered 307"),
        (Manner::Says("HTTP/1.1 200 x\r\ncontent-length: 2\r\n\r\n{}".to_owned()), "no chat completion"),
        (Manner::Hangs, "no answer in time"),
        (Manner::NeverEnds("HTTP/1.1 200 x\r\n\r\n".to_owned()), "longer than is read"),
    ] {
        let ended = narrate(&place, &Stub::that(manner), &["--model-within", "2s"]).expect(7).says(&[trouble]);
        assert_eq!(ended.stdout, without, "{trouble}");
    }
    assert_eq!(elsewhere.bytes().len(), 0, "nothing was followed");
}
