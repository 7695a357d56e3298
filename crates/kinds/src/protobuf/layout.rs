//! The order of a type's members in JSON and in its message, computed once.

use std::sync::LazyLock;

use super::encode::put_field;
use crate::types::{Field, Shape, TypeId, types};

static LAYOUTS: LazyLock<Vec<Layout>> =
    LazyLock::new(|| types().iter().map(|(id, _)| Layout::new(id)).collect());

/// A type as it is read from JSON and written to a message.
pub(super) struct Layout {
    /// The members in the order of JSON.
    pub members: Vec<Member>,
    /// The fields in the order of the message.
    pub entries: Vec<Entry>,
    /// The number of members that are written later than they are read.
    pub deferred: usize,
}

/// A member of the JSON object.
pub(super) struct Member {
    pub name: &'static str,
    pub turn: Turn,
}

/// When a member is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// As soon as it is read, as this entry: all fields before it in the message precede it in
    /// JSON, too.
    InPlace(usize),
    /// Later, so that its text is noted in this slot.
    Deferred(usize),
}

/// A field of the message.
pub(super) enum Entry {
    /// A member.
    Field {
        field: &'static Field,
        /// The bytes of the field if the member is absent.
        absent: Box<[u8]>,
        /// The slot of a deferred member.
        slot: Option<usize>,
    },
    /// A message with members of the same JSON object.
    Inline { number: u32, entries: Vec<Self> },
}

/// Returns the layout of the type.
pub(super) fn layout(id: TypeId) -> &'static Layout {
    &LAYOUTS[id.index()]
}

impl Layout {
    fn new(id: TypeId) -> Self {
        let names: Vec<_> = types().members(id).map(|field| field.json).collect();
        let turns = vec![Turn::Deferred(0); names.len()];
        let mut plan = Planner { names, turns };
        let mut read = None;
        let mut entries = Vec::new();
        for (index, field) in by_number(id).into_iter().enumerate() {
            let last = plan.last_position(field);
            // A message of inline members is written when the last of them has been read.
            if !field.inline && last > read {
                plan.turns[last.unwrap_or_default()] = Turn::InPlace(index);
            }
            read = read.max(last);
            entries.push(field);
        }
        let deferred = plan.number_slots();
        let entries = entries.into_iter().map(|field| plan.entry(field)).collect();
        let members = plan.names.iter().zip(&plan.turns);
        let members = members.map(|(name, turn)| Member { name, turn: *turn });
        Self {
            members: members.collect(),
            entries,
            deferred,
        }
    }
}

/// The members of a type while its layout is computed.
struct Planner {
    names: Vec<&'static str>,
    turns: Vec<Turn>,
}

impl Planner {
    fn position(&self, field: &Field) -> Option<usize> {
        self.names.iter().position(|name| *name == field.json)
    }

    /// Returns the position in JSON of a field, or of the last member of an inline field.
    fn last_position(&self, field: &Field) -> Option<usize> {
        match &field.shape {
            Shape::Struct(inner) if field.inline => {
                let inner = by_number(*inner).into_iter();
                inner.filter_map(|field| self.last_position(field)).max()
            }
            _ => self.position(field),
        }
    }

    /// Gives each deferred member a slot, and returns their number.
    fn number_slots(&mut self) -> usize {
        let mut slots = 0;
        for turn in &mut self.turns {
            if let Turn::Deferred(slot) = turn {
                *slot = slots;
                slots += 1;
            }
        }
        slots
    }

    fn entry(&self, field: &'static Field) -> Entry {
        if let (Shape::Struct(inner), true) = (&field.shape, field.inline) {
            let inner = by_number(*inner).into_iter();
            return Entry::Inline {
                number: field.number,
                entries: inner.map(|field| self.entry(field)).collect(),
            };
        }
        let mut absent = Vec::new();
        put_field(field, &field.shape, None, &mut absent);
        let turn = self.position(field).map(|position| self.turns[position]);
        Entry::Field {
            field,
            absent: absent.into(),
            slot: match turn {
                Some(Turn::Deferred(slot)) => Some(slot),
                _ => None,
            },
        }
    }
}

fn by_number(id: TypeId) -> Vec<&'static Field> {
    let mut fields: Vec<_> = types().get(id).fields.iter().collect();
    fields.sort_by_key(|field| field.number);
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deferred(name: &str) -> Vec<&'static str> {
        let members = &layout(types().find(name).unwrap()).members;
        let deferred = members
            .iter()
            .filter(|member| matches!(member.turn, Turn::Deferred(_)));
        deferred.map(|member| member.name).collect()
    }

    #[test]
    fn only_members_that_come_early_in_json_are_deferred() {
        assert_eq!(
            deferred("apimachinery.pkg.apis.meta.v1.ObjectMeta"),
            ["tenant"]
        );
        assert_eq!(deferred("api.core.v1.ConfigMap"), ["immutable"]);
        assert_eq!(
            deferred("apimachinery.pkg.apis.meta.v1.OwnerReference"),
            ["apiVersion"]
        );
        assert!(deferred("api.core.v1.Pod").is_empty());
        // The name of the ConfigMap is in a message of its own.
        assert_eq!(deferred("api.core.v1.ConfigMapKeySelector"), ["name"]);
    }
}
