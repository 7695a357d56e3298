//! A JSON object that is written member by member, without building it in memory.

use serde::Serialize;

use crate::Value;

/// The members of an object that is being written.
pub(super) struct JsonMembers<'a> {
    out: &'a mut Vec<u8>,
    first: bool,
}

impl<'a> JsonMembers<'a> {
    /// Begins an object.
    pub(super) fn begin(out: &'a mut Vec<u8>) -> Self {
        out.push(b'{');
        Self { out, first: true }
    }

    /// Continues an object that has members already.
    pub(super) fn resume(out: &'a mut Vec<u8>) -> Self {
        Self { out, first: false }
    }

    /// Writes a member.
    pub(super) fn add(&mut self, name: &str, value: &Value) {
        self.name(name);
        self.write(value);
    }

    /// Writes a member that is an object.
    pub(super) fn add_object(&mut self, name: &str, write: impl FnOnce(&mut JsonMembers<'_>)) {
        self.name(name);
        let mut members = JsonMembers::begin(self.out);
        write(&mut members);
        members.end();
    }

    /// Ends the object.
    pub(super) fn end(self) {
        self.out.push(b'}');
    }

    fn name(&mut self, name: &str) {
        if !std::mem::take(&mut self.first) {
            self.out.push(b',');
        }
        self.write(&name);
        self.out.push(b':');
    }

    fn write(&mut self, value: &impl Serialize) {
        serde_json::to_writer(&mut *self.out, value).expect("values are always JSON");
    }
}
