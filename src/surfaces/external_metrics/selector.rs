//! Label selectors, as the Kubernetes API writes them in a query
//! (<https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#label-selectors>).
//!
//! Both forms are read, as an HPA sends the one or the other depending on how its `selector` is written: equality (`target=orders`,
//! `target==orders`, `target!=orders`) and set (`target in (orders,payments)`, `target notin (orders)`, `target`, `!target`).
//! Requirements are joined by commas and all have to hold. As there, `!=` and `notin` hold where the label is absent. The
//! comparisons `<` and `>` are refused: no label here is a number.
//!
//! Read by hand and not with a library: the ones there are come with a whole client of the API.

/// The longest selector that is read, in bytes.
const LONGEST: usize = 4096;

/// Requirements that all have to hold. Without any it fits everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector(Vec<Requirement>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Requirement {
    key: String,
    test: Test,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Test {
    Exists,
    Absent,
    In(Vec<String>),
    NotIn(Vec<String>),
}

impl Selector {
    /// Reads a selector, or says what is wrong with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.len() > LONGEST {
            return Err(format!("the selector has {} bytes: expected at most {LONGEST}", text.len()));
        }
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        parts(text)?.into_iter().map(Requirement::parse).collect::<Result<_, _>>().map(Self)
    }

    /// Whether it fits something with these labels.
    #[must_use]
    pub fn fits(&self, labels: &[(&str, &str)]) -> bool {
        self.0.iter().all(|Requirement { key, test }| {
            let value = labels.iter().find(|(name, _)| name == key).map(|(_, value)| *value);
            let among = |values: &[String]| value.is_some_and(|value| values.iter().any(|one| one == value));
            match test {
                Test::Exists => value.is_some(),
                Test::Absent => value.is_none(),
                Test::In(values) => among(values),
                Test::NotIn(values) => !among(values),
            }
        })
    }
}

/// The requirements of a selector: separated by the commas that stand in no parentheses.
fn parts(text: &str) -> Result<Vec<&str>, String> {
    let (mut parts, mut begin, mut inside) = (Vec::new(), 0, false);
    for (at, character) in text.char_indices() {
        match character {
            '(' if inside => return Err(format!("a second \"(\" at byte {at}: expected \")\" before it")),
            '(' => inside = true,
            ')' if !inside => return Err(format!("a \")\" without its \"(\" at byte {at}")),
            ')' => inside = false,
            ',' if !inside => {
                parts.push(text.get(begin..at).unwrap_or_default());
                begin = at + 1;
            }
            _ => {}
        }
    }
    if inside {
        return Err("a \"(\" is not closed".to_owned());
    }
    parts.push(text.get(begin..).unwrap_or_default());
    Ok(parts)
}

impl Requirement {
    fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if let Some(key) = text.strip_prefix('!') {
            return Ok(Self { key: key_of(key)?, test: Test::Absent });
        }
        if let Some((head, values)) = text.split_once('(') {
            let values = values.strip_suffix(')').ok_or_else(|| format!("\"{text}\" goes on after its \")\""))?;
            let values = values.split(',').map(value_of).collect::<Result<Vec<_>, _>>()?;
            return match head.split_whitespace().collect::<Vec<_>>().as_slice() {
                [key, "in"] => Ok(Self { key: key_of(key)?, test: Test::In(values) }),
                [key, "notin"] => Ok(Self { key: key_of(key)?, test: Test::NotIn(values) }),
                _ => Err(format!("\"{text}\" is no requirement: expected \"key in (values)\" or \"key notin (values)\"")),
            };
        }
        if let Some((key, value)) = text.split_once("!=") {
            return Ok(Self { key: key_of(key)?, test: Test::NotIn(vec![value_of(value)?]) });
        }
        if let Some((key, value)) = text.split_once("==").or_else(|| text.split_once('=')) {
            return Ok(Self { key: key_of(key)?, test: Test::In(vec![value_of(value)?]) });
        }
        if text.contains(['<', '>']) {
            return Err(format!("\"{text}\" compares numbers: no label here is one"));
        }
        Ok(Self { key: key_of(text)?, test: Test::Exists })
    }
}

/// A key: a name, with or without a DNS name and a slash before it.
fn key_of(text: &str) -> Result<String, String> {
    let text = text.trim();
    let (prefix, name) = text.split_once('/').map_or((None, text), |(prefix, name)| (Some(prefix), name));
    let valid = prefix.is_none_or(|prefix| is_label(prefix, 253)) && is_label(name, 63);
    if valid { Ok(text.to_owned()) } else { Err(format!("\"{text}\" is no key of a label")) }
}

/// A value; it may be empty.
fn value_of(text: &str) -> Result<String, String> {
    let text = text.trim();
    if text.is_empty() || is_label(text, 63) { Ok(text.to_owned()) } else { Err(format!("\"{text}\" is no value of a label")) }
}

fn is_label(text: &str, longest: usize) -> bool {
    let edge = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric());
    let within = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    text.len() <= longest && edge(text.bytes().next()) && edge(text.bytes().last()) && text.bytes().all(within)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ORDERS: [(&str, &str); 1] = [("target", "orders")];

    fn fits(selector: &str, labels: &[(&str, &str)]) -> bool {
        Selector::parse(selector).expect(selector).fits(labels)
    }

    #[test]
    fn each_form_fits_what_kubernetes_says_that_it_fits() {
        for (selector, orders, unlabelled) in [
            ("", true, true),
            (" ", true, true),
            ("target=orders", true, false),
            ("target==orders", true, false),
            (" target = orders ", true, false),
            ("target=payments", false, false),
            ("target!=payments", true, true),
            ("target!=orders", false, true),
            ("target in (orders)", true, false),
            ("target in (payments, orders)", true, false),
            ("target in ()", false, false),
            ("target notin (payments,bills)", true, true),
            ("target notin (orders)", false, true),
            ("target", true, false),
            ("!target", false, true),
            ("! target", false, true),
            ("target=", false, false),
            ("app.kubernetes.io/name=loadline", false, false),
            ("!app.kubernetes.io/name", true, true),
            ("target=orders,!app", true, false),
            ("target in (orders,payments),target!=orders", false, false),
        ] {
            assert_eq!((fits(selector, &ORDERS), fits(selector, &[])), (orders, unlabelled), "\"{selector}\"");
        }
    }

    #[test]
    fn what_is_no_selector_is_refused_with_what_is_wrong() {
        for (selector, words) in [
            ("target=orders,", "\"\" is no key"),
            ("=orders", "is no key"),
            ("!", "is no key"),
            ("target=or ders", "\"or ders\" is no value"),
            ("target=-orders", "is no value"),
            ("a/b/c=d", "is no key"),
            ("target in orders", "\"target in orders\" is no key"),
            ("target in (orders", "is not closed"),
            ("target in (a,(b))", "second \"(\""),
            ("target)", "without its \"(\""),
            ("target in (a) b", "goes on after"),
            ("target among (a)", "expected \"key in (values)\""),
            ("target>5", "compares numbers"),
            ("target=\u{fc}", "is no value"),
        ] {
            let error = Selector::parse(selector).expect_err(selector);
            assert!(error.contains(words), "\"{selector}\": {error}");
        }
        assert!(Selector::parse(&"a,".repeat(5000)).expect_err("too long").contains("at most 4096"));
    }
}
