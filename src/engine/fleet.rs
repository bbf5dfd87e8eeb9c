//! The targets of an entry that stands for many: which there are, and what they are called.
//!
//! ```text
//! target = entry "." slug        slug: the name in lower case, all but letters and digits as "-"
//! ```
//!
//! Where that is taken or longer than 63 characters, the slug is cut and ends with `-` and 6 hex digits of the id. A name
//! once given stays: a thing that goes and comes back under its own name with another id (a job that was deployed anew)
//! has its target, its memory and its history back. What is no longer found is kept for [`GRACE_SECONDS`], so that a deployment in
//! between does not take the target away from those who follow it. At most [`MOST_MEMBERS`]: the first ones found stay, the
//! others are counted and named. A search that failed changes nothing: not found is not the same as gone.

use std::collections::{BTreeMap, BTreeSet};

use super::source::Found;
use crate::core::units::{Timestamp, seconds_between};

/// The most targets of one entry.
pub const MOST_MEMBERS: usize = 200;

/// How long a target is kept after the thing was last found, in seconds: a deployment with a savepoint takes minutes.
pub const GRACE_SECONDS: f64 = 600.0;

/// The longest name of a target.
const LONGEST_NAME: usize = 63;
/// Digits of the id at the end of a name that would be taken or too long; more where even that is taken.
const DIGITS: [usize; 3] = [6, 12, 20];

/// The targets of one entry, by name.
#[derive(Clone, Debug, Default)]
pub struct Fleet {
    members: BTreeMap<String, Member>,
}

/// A target of an entry.
#[derive(Clone, Debug, PartialEq)]
pub struct Member {
    /// What it stands for.
    pub found: Found,
    /// Since when it is no longer found.
    pub gone_since: Option<Timestamp>,
}

/// What a search changed.
#[derive(Debug, Default, PartialEq)]
pub struct Changes {
    /// New targets, and those whose thing has another id now.
    pub begin: Vec<(String, Found)>,
    /// Targets that are gone.
    pub end: Vec<String>,
    /// Names of what has no target, as there are too many.
    pub left_out: Vec<String>,
}

impl Fleet {
    /// The targets.
    #[must_use]
    pub fn members(&self) -> &BTreeMap<String, Member> {
        &self.members
    }

    /// Keeps only some of the targets.
    pub fn retain(&mut self, stays: impl Fn(&str, &Member) -> bool) {
        self.members.retain(|name, member| stays(name, member));
    }

    /// Takes in what a search found, the oldest first. `taken` tells which names belong to other targets.
    pub fn update(&mut self, entry: &str, found: &[Found], now: Timestamp, taken: impl Fn(&str) -> bool) -> Changes {
        let mut changes = Changes::default();
        let ids: BTreeSet<&str> = found.iter().map(|found| found.id.as_str()).collect();
        let mut placed: BTreeSet<String> = BTreeSet::new();
        for member in self.members.values_mut().filter(|member| ids.contains(member.found.id.as_str())) {
            member.gone_since = None;
            placed.insert(member.found.id.clone());
        }
        let mut new: Vec<&Found> = Vec::new();
        for found in found.iter().filter(|found| !placed.contains(&found.id)) {
            // the same name with another id: it came back
            let back = self.members.iter_mut().find(|(_, member)| member.found.name == found.name && !ids.contains(member.found.id.as_str()));
            match back {
                Some((name, member)) => {
                    *member = Member { found: found.clone(), gone_since: None };
                    changes.begin.push((name.clone(), found.clone()));
                }
                None => new.push(found),
            }
        }
        self.miss(&ids, now, &mut changes);
        // who bears the name as it is written has it before others; all else in an order that a restart of ours keeps
        new.sort_by_key(|found| (slug(&found.name) != found.name, found.name.clone()));
        for found in new {
            if self.members.len() >= MOST_MEMBERS && !self.make_room(&mut changes) {
                changes.left_out.push(found.name.clone());
                continue;
            }
            match self.free_name(entry, found, &taken) {
                Some(name) => {
                    self.members.insert(name.clone(), Member { found: found.clone(), gone_since: None });
                    changes.begin.push((name, found.clone()));
                }
                None => changes.left_out.push(found.name.clone()),
            }
        }
        changes
    }

    /// Notes who is no longer found, and parts with those that have been gone for long.
    fn miss(&mut self, ids: &BTreeSet<&str>, now: Timestamp, changes: &mut Changes) {
        self.members.retain(|name, member| {
            if ids.contains(member.found.id.as_str()) {
                return true;
            }
            let since = *member.gone_since.get_or_insert(now);
            let stays = seconds_between(since, now) < GRACE_SECONDS;
            if !stays {
                changes.end.push(name.clone());
            }
            stays
        });
    }

    /// Parts with the target that has been gone for longest, where there is one.
    fn make_room(&mut self, changes: &mut Changes) -> bool {
        let longest = self.members.iter().filter_map(|(name, member)| Some((member.gone_since?, name.clone()))).min();
        longest.is_some_and(|(_, name)| {
            self.members.remove(&name);
            changes.end.push(name);
            true
        })
    }

    fn free_name(&self, entry: &str, found: &Found, taken: &impl Fn(&str) -> bool) -> Option<String> {
        let is_free = |name: &String| !self.members.contains_key(name) && !taken(name);
        let slug = slug(&found.name);
        let plain = format!("{entry}.{slug}");
        if !slug.is_empty() && plain.len() <= LONGEST_NAME && is_free(&plain) {
            return Some(plain);
        }
        DIGITS.iter().map(|digits| with_digits(entry, &slug, &found.id, *digits)).find(is_free)
    }
}

/// Lower case; all but letters and digits as `-`, and none of those at either end.
fn slug(name: &str) -> String {
    let letter = |c: char| if c.is_ascii_lowercase() || c.is_ascii_digit() { c } else { '-' };
    name.to_lowercase().chars().map(letter).collect::<String>().trim_matches('-').to_owned()
}

fn with_digits(entry: &str, slug: &str, id: &str, digits: usize) -> String {
    let digits: String = id.chars().filter(char::is_ascii_hexdigit).map(|c| c.to_ascii_lowercase()).take(digits).collect();
    let room = LONGEST_NAME.saturating_sub(entry.len() + digits.len() + 2);
    // a slug is ASCII throughout
    let cut = slug.get(..room.min(slug.len())).unwrap_or_default().trim_end_matches('-');
    if cut.is_empty() { format!("{entry}.{digits}") } else { format!("{entry}.{cut}-{digits}") }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + seconds).expect("a time")
    }

    fn found(id: &str, name: &str) -> Found {
        Found { id: id.to_owned(), name: name.to_owned() }
    }

    fn names(fleet: &Fleet) -> Vec<(&str, &str)> {
        fleet.members().iter().map(|(name, member)| (name.as_str(), member.found.id.as_str())).collect()
    }

    fn one(name: &str) -> String {
        let mut fleet = Fleet::default();
        fleet.update("flink", &[found("f1a3b5c7d9e1f3a5b7c9d1e3f5a7b9c1", name)], at(0), |_| false);
        names(&fleet)[0].0.to_owned()
    }

    #[test]
    fn a_target_is_named_after_its_entry_and_the_slug_of_the_name() {
        for (name, expected) in [
            ("orders", "flink.orders"),
            ("Orders EU", "flink.orders-eu"),
            ("orders_v2.1", "flink.orders-v2-1"),
            ("insert-into_db.orders", "flink.insert-into-db-orders"),
            ("  (orders) ", "flink.orders"),
            ("a -> b", "flink.a----b"),
            ("Übung", "flink.bung"),
            ("注文", "flink.f1a3b5"),
            ("", "flink.f1a3b5"),
            ("abcdefghij-abcdefghij-abcdefghij-abcdefghij-abcdefghij-abcdefghij", "flink.abcdefghij-abcdefghij-abcdefghij-abcdefghij-abcdef-f1a3b5"),
        ] {
            assert_eq!(one(name), expected, "{name}");
        }
    }

    #[test]
    fn names_that_collide_end_with_digits_of_the_id_and_who_bears_the_slug_itself_has_it() {
        let mut fleet = Fleet::default();
        let jobs = [found("aaaaaaaa1", "Orders"), found("bbbbbbbb2", "orders"), found("cccccccc3", "orders"), found("dddddddd4", "taken")];
        let changes = fleet.update("e", &jobs, at(0), |name| name == "e.taken");
        assert_eq!(changes.begin.len(), 4);
        assert_eq!(
            names(&fleet),
            [("e.orders", "bbbbbbbb2"), ("e.orders-aaaaaa", "aaaaaaaa1"), ("e.orders-cccccc", "cccccccc3"), ("e.taken-dddddd", "dddddddd4")]
        );
        assert_eq!(fleet.update("e", &jobs, at(30), |_| true), Changes::default(), "a name once given stays");
    }

    #[test]
    fn a_job_that_is_deployed_anew_keeps_its_target_and_one_of_two_of_a_name_does_not_take_the_others() {
        let mut fleet = Fleet::default();
        fleet.update("e", &[found("a1", "orders"), found("b1", "bills")], at(0), |_| false);
        assert_eq!(fleet.update("e", &[found("b1", "bills")], at(30), |_| false), Changes::default(), "gone, and kept");
        let changes = fleet.update("e", &[found("b1", "bills"), found("a2", "orders")], at(300), |_| false);
        assert_eq!(changes, Changes { begin: vec![("e.orders".to_owned(), found("a2", "orders"))], ..Changes::default() });
        assert_eq!(fleet.members()["e.orders"].gone_since, None);
        fleet.update("e", &[found("a2", "orders"), found("a3", "orders")], at(330), |_| false);
        assert_eq!(names(&fleet), [("e.bills", "b1"), ("e.orders", "a2"), ("e.orders-a3", "a3")], "both run: two targets");
    }

    #[test]
    fn a_target_goes_ten_minutes_after_its_job() {
        let mut fleet = Fleet::default();
        fleet.update("e", &[found("a1", "orders")], at(0), |_| false);
        assert_eq!(fleet.update("e", &[], at(30), |_| false), Changes::default());
        assert_eq!(fleet.update("e", &[], at(629), |_| false), Changes::default());
        assert_eq!(fleet.update("e", &[], at(630), |_| false).end, ["e.orders"]);
        assert!(fleet.members().is_empty());
    }

    #[test]
    fn what_is_too_many_is_named_and_takes_the_place_of_what_has_gone() {
        let many = |from: usize, to: usize| -> Vec<Found> { (from..to).map(|n| found(&format!("{n:032x}"), &format!("job-{n:03}"))).collect() };
        let mut fleet = Fleet::default();
        let changes = fleet.update("e", &many(0, 203), at(0), |_| false);
        assert_eq!((fleet.members().len(), changes.left_out), (MOST_MEMBERS, vec!["job-200".to_owned(), "job-201".to_owned(), "job-202".to_owned()]));
        let changes = fleet.update("e", &many(2, 203), at(30), |_| false);
        assert_eq!((changes.end, changes.left_out.len(), fleet.members().len()), (vec!["e.job-000".to_owned(), "e.job-001".to_owned()], 1, MOST_MEMBERS));
    }

    proptest! {
        #[test]
        fn every_name_is_one_that_a_target_may_have_and_no_two_are_alike(names in prop::collection::vec(".{0,90}", 1..30), entry in "[a-z][a-z0-9-]{0,30}[a-z0-9]") {
            let jobs: Vec<Found> = names.iter().enumerate().map(|(n, name)| found(&format!("{:032x}", n * 7_919 + 1), name)).collect();
            let mut fleet = Fleet::default();
            let changes = fleet.update(&entry, &jobs, at(0), |_| false);
            prop_assert_eq!(fleet.members().len() + changes.left_out.len(), jobs.len());
            for name in fleet.members().keys() {
                let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
                prop_assert!(name.len() <= LONGEST_NAME && name.bytes().all(|byte| inner(byte) || byte == b'-' || byte == b'.'), "{}", name);
                prop_assert!(name.bytes().next().is_some_and(inner) && name.bytes().last().is_some_and(inner), "{}", name);
                prop_assert!(name.starts_with(&format!("{entry}.")), "{}", name);
            }
        }
    }
}
