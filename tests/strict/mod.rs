//! A strict reader of the Prometheus text format 0.0.4: names, labels, escapes, one block per family with its HELP and
//! TYPE first, no series twice, finite values, a line feed at the end.

use std::collections::HashSet;

#[derive(Debug)]
pub struct Family {
    pub name: String,
    pub kind: String,
    pub samples: Vec<Sample>,
}

#[derive(Debug)]
pub struct Sample {
    pub labels: Vec<(String, String)>,
    pub value: f64,
}

pub fn parse(text: &str) -> Result<Vec<Family>, String> {
    let mut families: Vec<Family> = Vec::new();
    let mut series = HashSet::new();
    let mut helped: Option<String> = None;
    if !text.ends_with('\n') {
        return Err("the text does not end with a line feed".to_owned());
    }
    for line in text.lines().filter(|line| !line.is_empty()) {
        let fail = |why: &str| Err(format!("{why}: {line}"));
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').unwrap_or((rest, ""));
            if families.iter().any(|family| family.name == name) || helped.is_some() || help.is_empty() {
                return fail("a HELP that is out of place or empty");
            }
            helped = Some(name.to_owned());
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let Some((name, kind)) = rest.split_once(' ') else { return fail("a TYPE without a type") };
            if helped.take().as_deref() != Some(name) || !["gauge", "counter", "histogram", "summary", "untyped"].contains(&kind) {
                return fail("a TYPE without its HELP before it");
            }
            families.push(Family { name: name.to_owned(), kind: kind.to_owned(), samples: Vec::new() });
        } else if line.starts_with('#') {
            return fail("a comment");
        } else {
            let (name, labels, value) = sample(line)?;
            let Some(family) = families.last_mut() else { return fail("a sample without a family") };
            let suffixes: &[&str] = if family.kind == "histogram" { &["_bucket", "_sum", "_count"] } else { &[""] };
            if helped.is_some() || !suffixes.iter().any(|suffix| name == format!("{}{suffix}", family.name)) {
                return fail("a sample outside of its family");
            }
            let mut key = labels.clone();
            key.sort();
            if key.windows(2).any(|pair| pair[0].0 == pair[1].0) || !series.insert((name, key)) {
                return fail("a label or a series twice");
            }
            if !value.is_finite() {
                return fail("a value that is not finite");
            }
            family.samples.push(Sample { labels, value });
        }
    }
    match families.iter().find(|family| family.samples.is_empty()) {
        Some(empty) => Err(format!("a family without samples: {}", empty.name)),
        None => Ok(families),
    }
}

type Parsed = (String, Vec<(String, String)>, f64);

fn sample(line: &str) -> Result<Parsed, String> {
    let fail = |why: &str| format!("{why}: {line}");
    let end = line.find(['{', ' ']).ok_or_else(|| fail("no value"))?;
    let (name, mut rest) = line.split_at(end);
    if !is_name(name, true) {
        return Err(fail("not a name"));
    }
    let mut labels = Vec::new();
    if let Some(inner) = rest.strip_prefix('{') {
        rest = inner;
        loop {
            let (label, after) = rest.split_once("=\"").ok_or_else(|| fail("a label without a value"))?;
            if !is_name(label, false) {
                return Err(fail("not a label's name"));
            }
            let (value, after) = quoted(after).ok_or_else(|| fail("a value that does not end or has a wrong escape"))?;
            labels.push((label.to_owned(), value));
            match after.split_at_checked(1) {
                Some((",", after)) => rest = after,
                Some(("}", after)) => {
                    rest = after;
                    break;
                }
                _ => return Err(fail("labels that do not end")),
            }
        }
    }
    let value = rest.strip_prefix(' ').ok_or_else(|| fail("no space before the value"))?;
    let value = if value == "+Inf" { f64::INFINITY } else { value.parse().map_err(|_| fail("not a number"))? };
    Ok((name.to_owned(), labels, value))
}

fn quoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut letters = text.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return Some((value, text.get(at + 1..)?)),
            '\\' => match letters.next()?.1 {
                'n' => value.push('\n'),
                escaped @ ('\\' | '"') => value.push(escaped),
                _ => return None,
            },
            '\n' => return None,
            _ => value.push(letter),
        }
    }
    None
}

fn is_name(text: &str, colon: bool) -> bool {
    let begins = |letter: char| letter.is_ascii_alphabetic() || letter == '_' || (colon && letter == ':');
    text.starts_with(begins) && text.chars().all(|letter| begins(letter) || letter.is_ascii_digit())
}
