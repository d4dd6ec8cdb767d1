//! How numbers and names that must not be shown could be written, and whether they are.

use data_encoding::{BASE64, HEXLOWER, HEXUPPER};

/// How the number could be written: decimal, with its thousands apart, hex, its bytes, and those in base64.
pub fn number_forms(number: u64) -> Vec<Vec<u8>> {
    let (big, little) = (number.to_be_bytes(), number.to_le_bytes());
    let without_zeros: Vec<u8> = big.iter().copied().skip_while(|&byte| byte == 0).collect();
    let mut forms: Vec<Vec<u8>> = [
        number.to_string(),
        grouped(number),
        format!("{number:x}"),
        format!("{number:X}"),
        BASE64.encode(&big),
        BASE64.encode(&little),
        BASE64.encode(&without_zeros),
        BASE64.encode(number.to_string().as_bytes()),
    ]
    .into_iter()
    .map(String::into_bytes)
    .collect();
    forms.extend([without_zeros.clone(), without_zeros.into_iter().rev().collect()]);
    forms
}

fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let groups: Vec<&str> = digits.as_bytes().rchunks(3).map(|g| std::str::from_utf8(g).unwrap()).collect();
    groups.into_iter().rev().collect::<Vec<_>>().join(",")
}

pub fn text_forms(text: &str) -> Vec<Vec<u8>> {
    let bytes = text.as_bytes();
    vec![bytes.to_vec(), HEXLOWER.encode(bytes).into(), HEXUPPER.encode(bytes).into(), {
        let base64 = BASE64.encode(bytes);
        base64.trim_end_matches('=').as_bytes()[..base64.trim_end_matches('=').len() - 1].to_vec()
    }]
}

/// Which of these stand in it.
pub fn found(output: &[u8], forms: &[Vec<u8>]) -> Vec<String> {
    let there = |form: &Vec<u8>| output.windows(form.len()).any(|window| window == form);
    forms.iter().filter(|form| there(form)).map(|form| String::from_utf8_lossy(form).into_owned()).collect()
}
