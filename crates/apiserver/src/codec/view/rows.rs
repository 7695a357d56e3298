//! Objects as rows of a table.

use bytes::Bytes;
use insula_custom::table;
use insula_kinds::{Object, Value, print};

use super::{Include, View};
use insula_cache::Stored;

impl View {
    /// Encodes a table of one object, with its columns if the client does not know them yet.
    pub(super) fn table(&self, object: &Stored, metadata: &str, columns: bool) -> Bytes {
        let columns = match columns {
            true => print::column_definitions(&self.kind),
            false => Value::Null,
        };
        let mut table = self.table_head(metadata, &columns).into_bytes();
        table.push(b'[');
        self.write_row(object, jiff::Timestamp::now().as_second(), &mut table);
        table.extend_from_slice(b"]}");
        table.into()
    }

    /// Returns the JSON of a table up to its rows.
    pub(super) fn table_head(&self, metadata: &str, columns: &Value) -> String {
        let version = self.meta_version();
        let head = format!(r#"{{"kind":"Table","apiVersion":"{version}","metadata":{metadata},"#);
        format!(r#"{head}"columnDefinitions":{columns},"rows":"#)
    }

    /// Appends the row of an object, with its age as of `now`, in seconds since 1970.
    pub(super) fn write_row(&self, object: &Stored, now: i64, out: &mut Vec<u8>) {
        let parts = self.row_object(object);
        let cells = match self.kind.custom() {
            Some(custom) => table::cells(&custom.version().columns, &parts, now),
            None => print::cells(&self.kind, &parts, now),
        };
        out.extend_from_slice(br#"{"cells":"#);
        out.extend_from_slice(Value::from(cells).to_string().as_bytes());
        if let Some(conditions) = print::row_conditions(&self.kind, &parts) {
            out.extend_from_slice(br#","conditions":"#);
            out.extend_from_slice(conditions.to_string().as_bytes());
        }
        out.extend_from_slice(br#","object":"#);
        match self.include {
            Include::None => out.extend_from_slice(b"null"),
            Include::Metadata => self.write_metadata(object, out),
            Include::Object => out.extend_from_slice(&self.whole_object(object)),
        }
        out.push(b'}');
    }

    /// Decodes what the cells of an object's row show.
    fn row_object(&self, object: &Stored) -> Object {
        if let Some(custom) = self.kind.custom() {
            let columns = &custom.version().columns;
            return print::decode_parts(&object.body(), |name| table::row_part(columns, name));
        }
        if !self.is_stored_version() {
            return self.tree(object);
        }
        let decode =
            |json: &[u8]| print::decode_parts(json, |name| print::row_part(&self.kind, name));
        let kept = object.row_parts(|json| Value::Object(decode(json)).to_string().into());
        match kept {
            Some(parts) => serde_json::from_slice(parts).unwrap_or_default(),
            None => decode(&object.body()),
        }
    }
}
