//! A snapshot while it is put together: constants first, then one value after the other, each at its place.
//!
//! Elements of lists are kept by what makes them out, so that values of different queries meet in the same element, and
//! in order. A place is filled once: a second value for it means that two series stand for one thing. `null` is a value
//! that is known to be unknown; it is left out at the end, and with it whatever cannot be without it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde_json::{Map, Value};

use super::field::{Step, key_of};

/// What makes out an element.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ident {
    /// A number, as of a partition.
    Number(u64),
    /// A text.
    Text(String),
}

impl fmt::Display for Ident {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Text(text) => f.write_str(text),
        }
    }
}

/// Members without which an object is unknown as a whole, by the path of the object without brackets.
pub type Required = BTreeMap<String, BTreeSet<String>>;

/// A snapshot that is put together.
#[derive(Clone, Debug, Default)]
pub struct Tree(BTreeMap<String, Node>);

#[derive(Clone, Debug)]
enum Node {
    Value(Value),
    Object(BTreeMap<String, Node>),
    List(BTreeMap<Ident, BTreeMap<String, Node>>),
    Items(BTreeMap<Ident, Value>),
}

impl Tree {
    /// With constants in it.
    #[must_use]
    pub fn of(constants: &Map<String, Value>) -> Self {
        Self(object(constants))
    }

    /// Puts a value at a place. `idents` are those of the elements on the way. False: there is one already, or something
    /// else; it is then taken out and stays unknown.
    pub fn put(&mut self, steps: &[Step], idents: &[Ident], value: Value) -> bool {
        put(&mut self.0, steps, idents, value)
    }

    /// True when there is a value at the place of a path without elements, or at that of any element.
    #[must_use]
    pub fn has(&self, steps: &[Step]) -> bool {
        let mut all = 0;
        let mut lacking = Vec::new();
        lack(&self.0, steps, "", &mut all, &mut lacking);
        all > lacking.len()
    }

    /// Names of the elements that lack the field; of a path without elements the field itself.
    #[must_use]
    pub fn lacking(&self, steps: &[Step]) -> Vec<String> {
        let mut lacking = Vec::new();
        lack(&self.0, steps, "", &mut 0, &mut lacking);
        lacking
    }

    /// What makes out the elements that there are on the way; where there are none, one of the name 0.
    #[must_use]
    pub fn elements(&self, steps: &[Step]) -> Vec<Vec<Ident>> {
        let mut found = Vec::new();
        walk(&self.0, steps, &mut Vec::new(), &mut found);
        found
    }

    /// The snapshot. What is unknown without something that is missing goes, and is named.
    #[must_use]
    pub fn close(self, required: &Required) -> (Map<String, Value>, Vec<String>) {
        let mut notes = Vec::new();
        let closed = close(self.0, "", "", required, &mut notes).unwrap_or_default();
        (closed, notes)
    }
}

fn object(constants: &Map<String, Value>) -> BTreeMap<String, Node> {
    constants.iter().map(|(name, value)| (name.clone(), node(name, value))).collect()
}

fn node(name: &str, value: &Value) -> Node {
    match value {
        Value::Object(members) => Node::Object(object(members)),
        Value::Array(items) => {
            let element = |item: &Value| {
                let ident = ident(item.get(key_of(name)?)?)?;
                Some((ident, object(item.as_object()?)))
            };
            let elements: Option<BTreeMap<_, _>> = items.iter().map(element).collect();
            // one that stands twice, or without what makes it out, is left for the check of the whole to refuse
            elements.filter(|elements| elements.len() == items.len() && !items.is_empty()).map_or_else(|| Node::Value(value.clone()), Node::List)
        }
        other => Node::Value(other.clone()),
    }
}

fn ident(value: &Value) -> Option<Ident> {
    value.as_u64().map(Ident::Number).or_else(|| value.as_str().map(|text| Ident::Text(text.to_owned())))
}

fn put(members: &mut BTreeMap<String, Node>, steps: &[Step], idents: &[Ident], value: Value) -> bool {
    let Some((Step::Member(name), rest)) = steps.split_first() else { return false };
    match rest.split_first() {
        None => {
            let taken = members.insert(name.clone(), Node::Value(value)).is_some();
            if taken {
                members.insert(name.clone(), Node::Value(Value::Null));
            }
            !taken
        }
        Some((Step::Element(element), below)) => {
            let Some((ident, idents)) = idents.split_first() else { return false };
            let Node::List(elements) = members.entry(name.clone()).or_insert_with(|| Node::List(BTreeMap::new())) else { return false };
            let inside = elements.entry(ident.clone()).or_insert_with(|| {
                let key = match ident {
                    Ident::Number(number) => Value::from(*number),
                    Ident::Text(text) => Value::from(text.as_str()),
                };
                BTreeMap::from([(element.key.clone(), Node::Value(key))])
            });
            put(inside, below, idents, value)
        }
        Some((Step::Entry(_), below)) => {
            let Some((ident, idents)) = idents.split_first() else { return false };
            let Node::Object(entries) = members.entry(name.clone()).or_insert_with(|| Node::Object(BTreeMap::new())) else { return false };
            let steps: Vec<Step> = std::iter::once(Step::Member(ident.to_string())).chain(below.iter().cloned()).collect();
            put(entries, &steps, idents, value)
        }
        Some((Step::Item(_), _)) => {
            let Some(ident) = idents.first() else { return false };
            let Node::Items(items) = members.entry(name.clone()).or_insert_with(|| Node::Items(BTreeMap::new())) else { return false };
            let taken = items.insert(ident.clone(), value).is_some();
            if taken {
                items.insert(ident.clone(), Value::Null);
            }
            !taken
        }
        Some((Step::Member(_), _)) => {
            let Node::Object(inside) = members.entry(name.clone()).or_insert_with(|| Node::Object(BTreeMap::new())) else { return false };
            put(inside, rest, idents, value)
        }
    }
}

fn lack(members: &BTreeMap<String, Node>, steps: &[Step], path: &str, all: &mut usize, lacking: &mut Vec<String>) {
    let Some((Step::Member(name), rest)) = steps.split_first() else { return };
    let here = join(path, name);
    match (members.get(name), rest.split_first()) {
        (Some(Node::List(elements)), Some((Step::Element(_), below))) => {
            for (ident, inside) in elements {
                lack(inside, below, &format!("{here}[{ident}]"), all, lacking);
            }
        }
        (Some(Node::Object(inside)), Some((Step::Member(_), _))) => lack(inside, rest, &here, all, lacking),
        (Some(_), None | Some((Step::Entry(_) | Step::Item(_), _))) => *all += 1,
        _ => {
            *all += 1;
            lacking.push(here);
        }
    }
}

fn walk(members: &BTreeMap<String, Node>, steps: &[Step], on_the_way: &mut Vec<Ident>, found: &mut Vec<Vec<Ident>>) {
    let Some((Step::Member(name), rest)) = steps.split_first() else { return };
    match (members.get(name), rest.split_first()) {
        (Some(Node::List(elements)), Some((Step::Element(_), below))) => {
            for (ident, inside) in elements {
                on_the_way.push(ident.clone());
                walk(inside, below, on_the_way, found);
                on_the_way.pop();
            }
        }
        (Some(Node::Object(inside)), Some((Step::Member(_), _))) => walk(inside, rest, on_the_way, found),
        _ => {
            // what lies below is not there yet
            let more = steps.iter().filter_map(|step| match step {
                Step::Member(_) => None,
                Step::Element(element) if element.is_number => Some(Ident::Number(0)),
                Step::Element(_) | Step::Entry(_) | Step::Item(_) => Some(Ident::Text("0".to_owned())),
            });
            found.push(on_the_way.iter().cloned().chain(more).collect());
        }
    }
}

fn close(members: BTreeMap<String, Node>, path: &str, pattern: &str, required: &Required, notes: &mut Vec<String>) -> Option<Map<String, Value>> {
    let mut closed = Map::new();
    for (name, node) in members {
        let (here, kind) = (join(path, &name), join(pattern, &name));
        let value = match node {
            Node::Value(value) => Some(value).filter(|value| !value.is_null()),
            Node::Object(inside) => close(inside, &here, &kind, required, notes).filter(|inside| !inside.is_empty()).map(Value::Object),
            Node::Items(items) => Some(Value::Array(items.into_values().collect())),
            Node::List(elements) => {
                // a list of which an element is unknown is unknown: it must not look shorter than it is
                let elements: Vec<Option<Map<String, Value>>> =
                    elements.into_iter().map(|(ident, inside)| close(inside, &format!("{here}[{ident}]"), &kind, required, notes)).collect();
                let elements: Option<Vec<Value>> = elements.into_iter().map(|element| element.map(Value::Object)).collect();
                elements.map(Value::Array)
            }
        };
        if let Some(value) = value {
            closed.insert(name, value);
        }
    }
    let lacks = required.get(pattern).and_then(|names| names.iter().find(|name| !closed.contains_key(*name)));
    match lacks {
        Some(name) => {
            notes.push(format!("{path} is unknown without {name}"));
            None
        }
        None => Some(closed),
    }
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::config::prometheus::field::Shape;
    use crate::core::request::Kind;

    fn steps(kind: Kind, key: &str) -> Vec<Step> {
        Shape::of(kind).find(key).expect(key).0
    }

    fn constants(value: &Value) -> Tree {
        Tree::of(value.as_object().expect("an object"))
    }

    #[test]
    fn values_of_different_queries_meet_in_the_element_that_the_labels_name() {
        let mut tree = constants(&json!({ "type": "classic", "topics": [{ "name": "orders", "retentionSeconds": 60 }] }));
        for (key, partition, value) in [("committed", 10, 5), ("logEnd", 2, 9), ("logEnd", 10, 7)] {
            let steps = steps(Kind::KafkaGroup, &format!("topics[].partitions[].{key}"));
            assert!(tree.put(&steps, &[Ident::Text("orders".to_owned()), Ident::Number(partition)], json!(value)));
        }
        assert_eq!(tree.lacking(&steps(Kind::KafkaGroup, "topics[].partitions[].committed")), ["topics[orders].partitions[2].committed"]);
        let (snapshot, notes) = tree.close(&Required::new());
        let partitions = json!([{ "partition": 2, "logEnd": 9 }, { "partition": 10, "committed": 5, "logEnd": 7 }]);
        assert_eq!(Value::Object(snapshot), json!({ "type": "classic", "topics": [{ "name": "orders", "retentionSeconds": 60, "partitions": partitions }] }));
        assert!(notes.is_empty());
    }

    #[test]
    fn two_values_for_one_place_leave_it_unknown() {
        let mut tree = Tree::default();
        let backlog = steps(Kind::Backlog, "backlog");
        assert!(tree.put(&backlog, &[], json!(1)));
        assert!(!tree.put(&backlog, &[], json!(2)));
        assert_eq!(tree.close(&Required::new()).0, Map::new());
    }

    #[test]
    fn a_list_of_which_an_element_is_unknown_is_unknown_and_not_shorter() {
        let mut tree = Tree::default();
        let (capacity, used) = (steps(Kind::DruidWorkers, "workers[].capacity"), steps(Kind::DruidWorkers, "workers[].used"));
        for host in ["a", "b"] {
            tree.put(&capacity, &[Ident::Text(host.to_owned())], json!(4));
        }
        tree.put(&used, &[Ident::Text("a".to_owned())], json!(1));
        let required = Required::from([("workers".to_owned(), BTreeSet::from(["capacity".to_owned(), "used".to_owned()]))]);
        let (snapshot, notes) = tree.close(&required);
        assert_eq!(snapshot, Map::new());
        assert_eq!(notes, ["workers[b] is unknown without used"]);
    }
}
