//! Why: every code with its meaning, its numbers and its one sentence. No other module words a reason.
//!
//! A reason is data. Its sentence is written when it is serialized, so that a decision whose text nobody reads costs
//! no formatting. `code` is stable API; the sentence is not.

mod codes;
mod text;

use std::fmt;

use serde::ser::{Serialize, SerializeMap, Serializer};
use utoipa::ToSchema;

pub use self::codes::{LimitCode, Reason, ReasonCode};
pub use self::text::{
    FreeSlots, Gone, Maybe, MoreWorkers, Names, Num, PendingTasks, Rate, Secs, Share, Slots, StartingSlots, Tasks, Vertices, WorkerSize, Workers,
};
use super::units::Count;

/// Declares codes, their groups and meanings, the data of each and its sentence, in one place. `also` lists further
/// shapes of a code, where a part of a job says with other numbers what a whole workload says.
macro_rules! reasons {
    ($( $group:literal: { $( $(#[doc = $doc:literal])+ $name:ident { $($field:ident : $type:ty),* $(,)? } $sentence:literal; )+ } )+
     also: { $( $(#[doc = $also_doc:literal])+ $also:ident ($code:ident) { $($also_field:ident : $also_type:ty),* $(,)? } $also_sentence:literal; )* }) => {
        /// Why a decision came out as it did, with its numbers.
        #[derive(Clone, Debug, PartialEq)]
        #[expect(missing_docs, reason = "the fields are named after what they hold, with the unit in the name or the type")]
        pub enum Reason {
            $($( $(#[doc = $doc])+ $name { $($field: $type),* }, )+)+
            $( $(#[doc = $also_doc])+ $also { $($also_field: $also_type),* }, )*
        }

        /// The stable code of a reason.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum ReasonCode { $($( $(#[doc = $doc])+ $name, )+)+ }

        impl ReasonCode {
            /// All codes, by group.
            pub const ALL: &'static [Self] = &[ $($( Self::$name, )+)+ ];

            /// The name on the wire.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $($( Self::$name => stringify!($name), )+)+ }
            }

            /// The group it belongs to.
            #[must_use]
            pub const fn group(self) -> &'static str {
                match self { $($( Self::$name => $group, )+)+ }
            }

            /// True where it says that something is not known or not safe.
            #[must_use]
            pub fn is_doubt(self) -> bool {
                self.group() == "Not known or not safe"
            }

            /// What it says, for the documentation.
            #[must_use]
            pub const fn meaning(self) -> &'static str {
                match self { $($( Self::$name => concat!($($doc),+), )+)+ }
            }
        }

        impl Reason {
            /// The stable code.
            #[must_use]
            pub const fn code(&self) -> ReasonCode {
                match self {
                    $($( Self::$name { .. } => ReasonCode::$name, )+)+
                    $( Self::$also { .. } => ReasonCode::$code, )*
                }
            }

            /// The numbers behind the sentence, as a JSON object with the fields' names.
            pub(super) fn serialize_values<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let mut map = serializer.serialize_map(None)?;
                match self {
                    $($( Self::$name { $($field),* } => { $( map.serialize_entry(&super::Camel(stringify!($field)), $field)?; )* } )+)+
                    $( Self::$also { $($also_field),* } => { $( map.serialize_entry(&super::Camel(stringify!($also_field)), $also_field)?; )* } )*
                }
                map.end()
            }
        }

        impl std::fmt::Display for Reason {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                match self {
                    $($( Self::$name { $($field),* } => write!(f, $sentence), )+)+
                    $( Self::$also { $($also_field),* } => write!(f, $also_sentence), )*
                }
            }
        }
    };
}
use reasons;

/// What a reason looks like in JSON.
#[derive(ToSchema)]
#[schema(as = Reason)]
#[expect(dead_code, reason = "only its schema is used")]
pub struct ReasonSchema {
    /// The stable code.
    code: String,
    /// One sentence with the numbers.
    message: String,
    /// The numbers.
    values: serde_json::Map<String, serde_json::Value>,
}

/// A field's name as it is on the wire: `free_slots` becomes `freeSlots`.
struct Camel(&'static str);

impl Serialize for Camel {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut name = String::with_capacity(self.0.len());
        let mut upper = false;
        for letter in self.0.chars() {
            match letter {
                '_' => upper = true,
                _ if upper => {
                    name.push(letter.to_ascii_uppercase());
                    upper = false;
                }
                _ => name.push(letter),
            }
        }
        serializer.serialize_str(&name)
    }
}

/// A reason's own serialization puts code and sentence around its numbers.
struct Values<'a>(&'a Reason);

impl Serialize for Values<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize_values(serializer)
    }
}

/// The sentence, written straight into the output.
struct Sentence<'a, T>(&'a T);

impl<T: fmt::Display> Serialize for Sentence<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self.0)
    }
}

impl Serialize for Reason {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(3))?;
        map.serialize_entry("code", self.code().name())?;
        map.serialize_entry("message", &Sentence(self))?;
        map.serialize_entry("values", &Values(self))?;
        map.end()
    }
}

impl ReasonCode {
    /// True for reasons that make "no difference" a hold: not known, will not help, or work in hand.
    #[must_use]
    pub fn holds(self) -> bool {
        self.group() != "Demand"
    }
}

/// A cut or a lift of the wish.
#[derive(Clone, Debug, PartialEq)]
pub struct Limit {
    /// The stable code.
    pub code: LimitCode,
    /// The value before.
    pub from: Count,
    /// The value after.
    pub to: Count,
    /// What set the limit: partitions, slots, seconds, a percentage, as the code says.
    pub at: f64,
}

impl Limit {
    const fn at(&self) -> Num {
        Num(self.at)
    }

    const fn from(&self) -> Count {
        self.from
    }

    const fn to(&self) -> Count {
        self.to
    }

    const fn seconds(&self) -> Secs {
        Secs(self.at)
    }

    const fn share(&self) -> Share {
        Share(self.at)
    }
}

/// What a limit looks like in JSON.
#[derive(ToSchema)]
#[schema(as = Limit)]
#[expect(dead_code, reason = "only its schema is used")]
pub struct LimitSchema {
    /// The stable code.
    code: String,
    /// The value before.
    from: Count,
    /// The value after.
    to: Count,
    /// One sentence.
    message: String,
}

impl Serialize for Limit {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(4))?;
        map.serialize_entry("code", self.code.name())?;
        map.serialize_entry("from", &self.from)?;
        map.serialize_entry("to", &self.to)?;
        map.serialize_entry("message", &Sentence(self))?;
        map.end()
    }
}
