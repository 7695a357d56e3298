//! Decoding of messages to trees.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::{Number, Value};

use super::Error;
use super::plan::{Plan, Zero, is_omitted, is_wrapped, plan};
use super::wire::{BYTES, FIXED64, Reader, Tag, VARINT};
use crate::types::{Field, Form, Shape, TypeId};
use crate::{Object, quantity};

/// Maximum depth of the tree. It is lower than that of the JSON parser, so that a decoded
/// object can be written as JSON, wrapped in a list, and read again.
const MAX_DEPTH: usize = 120;

/// Maximum number of messages in a message. The tree of a two-byte message can take a
/// thousand bytes: a small body must not become a large tree.
const MAX_MESSAGES: usize = 100_000;

/// Go's zero time, the beginning of year 1.
const ZERO_TIME: i64 = -62_135_596_800;

/// Decodes a message of the type to the tree that its JSON would give.
///
/// Members that Go writes even if they are unset are present with their zero value;
/// members that Go omits or writes as null are absent.
///
/// # Errors
///
/// If the bytes are not such a message, or nest too deeply.
pub fn decode(of: TypeId, message: &[u8]) -> Result<Object, Error> {
    let mut decoder = Decoder { messages: 0 };
    let mut object = Object::new();
    decoder.members(plan(of), message, &mut object, 1)?;
    Ok(object)
}

struct Decoder {
    messages: usize,
}

impl Decoder {
    /// Decodes a message into the members of an object. A message may come in parts, each
    /// of which adds to the object.
    fn members(
        &mut self,
        plan: &'static Plan,
        message: &[u8],
        object: &mut Object,
        depth: usize,
    ) -> Result<(), Error> {
        self.count(depth)?;
        let mut reader = Reader::new(message);
        while let Some(tag) = reader.tag(plan.of.kind())? {
            let Some(field) = plan.field(tag.number) else {
                reader.skip(tag.wire)?;
                continue;
            };
            match (&field.shape, field.inline) {
                (Shape::Struct(inner), true) => {
                    let part = length_delimited(&mut reader, tag, field)?;
                    self.members(super::plan::plan(*inner), part, object, depth)?;
                }
                _ => self.member(field, tag, &mut reader, object, depth)?,
            }
        }
        add_zeros(plan, object);
        Ok(())
    }

    fn member(
        &mut self,
        field: &'static Field,
        tag: Tag,
        reader: &mut Reader<'_>,
        object: &mut Object,
        depth: usize,
    ) -> Result<(), Error> {
        let slot = object.entry(field.json).or_insert(Value::Null);
        self.add(field, &field.shape, tag, reader, slot, depth)?;
        if is_omitted(field, slot) {
            object.remove(field.json);
        }
        Ok(())
    }

    /// Decodes a value into an existing one: lists and maps grow, structs merge, and
    /// anything else is replaced.
    fn add(
        &mut self,
        field: &Field,
        shape: &Shape,
        tag: Tag,
        reader: &mut Reader<'_>,
        slot: &mut Value,
        depth: usize,
    ) -> Result<(), Error> {
        match shape {
            Shape::List(inner) => self.add_element(field, inner, tag, reader, slot, depth),
            Shape::WrappedList(inner) if !is_wrapped(inner) => {
                self.add_element(field, inner, tag, reader, slot, depth)
            }
            Shape::WrappedList(inner) => {
                let message = length_delimited(reader, tag, field)?;
                self.count(depth + 1)?;
                array(slot);
                let mut reader = Reader::new(message);
                while let Some(tag) = reader.tag(field.json)? {
                    match tag.number {
                        1 => self.add_element(field, inner, tag, &mut reader, slot, depth)?,
                        _ => reader.skip(tag.wire)?,
                    }
                }
                Ok(())
            }
            Shape::Map(inner) => {
                let entry = length_delimited(reader, tag, field)?;
                self.add_entry(field, inner, entry, slot, depth)
            }
            Shape::Struct(id) => {
                let message = length_delimited(reader, tag, field)?;
                self.add_struct(*id, message, slot, depth + 1)
            }
            scalar => {
                *slot = self.scalar(field, scalar, tag, reader, depth)?;
                Ok(())
            }
        }
    }

    fn add_element(
        &mut self,
        field: &Field,
        shape: &Shape,
        tag: Tag,
        reader: &mut Reader<'_>,
        slot: &mut Value,
        depth: usize,
    ) -> Result<(), Error> {
        let list = array(slot);
        let numbers = matches!(shape, Shape::Bool | Shape::Int32 | Shape::Int64);
        if numbers && tag.wire == BYTES {
            // Kubernetes does not write packed lists, but a protobuf reader must accept
            // them.
            let mut packed = Reader::new(reader.bytes()?);
            let one = Tag {
                wire: VARINT,
                ..tag
            };
            while !packed.is_empty() {
                list.push(self.scalar(field, shape, one, &mut packed, depth + 1)?);
            }
            return Ok(());
        }
        let mut element = Value::Null;
        self.add(field, shape, tag, reader, &mut element, depth + 1)?;
        list.push(element);
        Ok(())
    }

    fn add_entry(
        &mut self,
        field: &Field,
        shape: &Shape,
        entry: &[u8],
        slot: &mut Value,
        depth: usize,
    ) -> Result<(), Error> {
        self.count(depth + 1)?;
        let mut key = String::new();
        let mut value = None;
        let mut reader = Reader::new(entry);
        while let Some(tag) = reader.tag(field.json)? {
            match tag.number {
                1 => key = text(length_delimited(&mut reader, tag, field)?),
                2 => {
                    let slot = value.insert(Value::Null);
                    self.add(field, shape, tag, &mut reader, slot, depth + 1)?;
                }
                _ => reader.skip(tag.wire)?,
            }
        }
        let value = match value {
            Some(value) => value,
            None => self.zero_of(shape, depth + 1)?,
        };
        object(slot).insert(key, value);
        Ok(())
    }

    fn add_struct(
        &mut self,
        id: TypeId,
        message: &[u8],
        slot: &mut Value,
        depth: usize,
    ) -> Result<(), Error> {
        let plan = plan(id);
        match plan.of.form {
            Form::Object => self.members(plan, message, object(slot), depth),
            Form::Either => self.either(plan, message, slot, depth),
        }
    }

    /// Decodes a type with alternatives: a list if it has elements, else a struct if
    /// there is one, else a boolean.
    fn either(
        &mut self,
        plan: &'static Plan,
        message: &[u8],
        slot: &mut Value,
        depth: usize,
    ) -> Result<(), Error> {
        self.count(depth)?;
        let mut found: [Value; 2] = [Value::Null, Value::Null];
        let mut reader = Reader::new(message);
        while let Some(tag) = reader.tag(plan.of.kind())? {
            match plan.field(tag.number) {
                // The tree contains only the chosen alternative, at the depth of the
                // whole.
                Some(field) => {
                    let slot = &mut found[usize::from(field.number != 1)];
                    self.add(field, &field.shape, tag, &mut reader, slot, depth - 1)?;
                }
                None => reader.skip(tag.wire)?,
            }
        }
        let bool = plan.fields().any(|field| field.shape == Shape::Bool);
        let [first, second] = found;
        *slot = match (first, second) {
            (first, Value::Null) if bool => Value::Bool(first == true),
            (first, Value::Null) => first,
            (_, second) => second,
        };
        Ok(())
    }

    fn scalar(
        &mut self,
        field: &Field,
        shape: &Shape,
        tag: Tag,
        reader: &mut Reader<'_>,
        depth: usize,
    ) -> Result<Value, Error> {
        match shape {
            Shape::Bool => Ok(Value::Bool(varint(reader, tag, field)? != 0)),
            Shape::Int32 => Ok(Value::from(varint(reader, tag, field)? as i32)),
            Shape::Int64 => Ok(Value::from(varint(reader, tag, field)? as i64)),
            Shape::Float64 => {
                expect(tag, FIXED64, field)?;
                float(reader.fixed64()?).ok_or_else(|| out_of_range(field))
            }
            _ => {
                let bytes = length_delimited(reader, tag, field)?;
                self.delimited(field, shape, bytes, depth)
            }
        }
    }

    fn delimited(
        &mut self,
        field: &Field,
        shape: &Shape,
        bytes: &[u8],
        depth: usize,
    ) -> Result<Value, Error> {
        match shape {
            Shape::String => Ok(Value::String(text(bytes))),
            Shape::Bytes => Ok(Value::String(STANDARD.encode(bytes))),
            Shape::Time => time(field, bytes, Precision::Seconds),
            Shape::MicroTime => time(field, bytes, Precision::Micros),
            Shape::Quantity => read_quantity(field, bytes),
            Shape::IntOrString => int_or_string(field, bytes),
            Shape::Raw => {
                let value = raw(field, bytes)?;
                if depth + depth_of(&value) > MAX_DEPTH {
                    return Err(Error::TooDeep);
                }
                Ok(value)
            }
            // All other shapes have been handled before.
            _ => Ok(Value::Null),
        }
    }

    /// Returns the value of a map entry without one.
    fn zero_of(&mut self, shape: &Shape, depth: usize) -> Result<Value, Error> {
        let mut value = match shape {
            Shape::String | Shape::Bytes => Value::from(""),
            Shape::Bool => Value::Bool(false),
            Shape::Int32 | Shape::Int64 | Shape::Float64 | Shape::IntOrString => Value::from(0),
            Shape::Quantity => Value::from("0"),
            Shape::List(_) | Shape::WrappedList(_) => Value::Array(Vec::new()),
            _ => Value::Null,
        };
        if let Shape::Struct(id) = shape {
            self.add_struct(*id, &[], &mut value, depth + 1)?;
        }
        Ok(value)
    }

    fn count(&mut self, depth: usize) -> Result<(), Error> {
        self.messages += 1;
        if depth > MAX_DEPTH {
            return Err(Error::TooDeep);
        }
        if self.messages > MAX_MESSAGES {
            return Err(Error::TooMany);
        }
        Ok(())
    }
}

/// Adds the members that JSON has even if the message lacks them.
fn add_zeros(plan: &Plan, object: &mut Object) {
    for (name, zero) in plan.always() {
        if !object.contains_key(*name) {
            object.insert((*name).to_owned(), zero_value(*zero));
        }
    }
}

fn zero_value(zero: Zero) -> Value {
    match zero {
        Zero::False => Value::Bool(false),
        Zero::Number => Value::from(0),
        Zero::Text => Value::from(""),
        Zero::Quantity => Value::from("0"),
        Zero::Struct(id) => {
            // Go structs cannot contain themselves without a pointer, so this terminates.
            let mut object = Object::new();
            add_zeros(plan(id), &mut object);
            Value::Object(object)
        }
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Precision {
    Seconds,
    Micros,
}

fn time(field: &Field, message: &[u8], precision: Precision) -> Result<Value, Error> {
    if message.is_empty() {
        return Ok(Value::Null);
    }
    let [seconds, nanos] = numbers(field, message)?;
    let micros = match precision {
        Precision::Seconds => 0,
        Precision::Micros => i64::from(nanos as i32) / 1_000,
    };
    if seconds == ZERO_TIME && micros == 0 {
        return Ok(Value::Null);
    }
    let nanos = i128::from(seconds) * 1_000_000_000 + i128::from(micros) * 1_000;
    let time = Timestamp::from_nanosecond(nanos).map_err(|_| out_of_range(field))?;
    // Earlier years need a sign, which RFC 3339 does not allow.
    if seconds < ZERO_TIME {
        return Err(out_of_range(field));
    }
    Ok(Value::String(match precision {
        Precision::Seconds => time.to_string(),
        Precision::Micros => format!("{time:.6}"),
    }))
}

/// Returns fields 1 and 2 of a message, both integers.
fn numbers(field: &Field, message: &[u8]) -> Result<[i64; 2], Error> {
    let mut numbers = [0; 2];
    let mut reader = Reader::new(message);
    while let Some(tag) = reader.tag("Timestamp")? {
        match tag.number {
            1 => numbers[0] = varint(&mut reader, tag, field)? as i64,
            2 => numbers[1] = varint(&mut reader, tag, field)? as i64,
            _ => reader.skip(tag.wire)?,
        }
    }
    Ok(numbers)
}

fn read_quantity(field: &Field, message: &[u8]) -> Result<Value, Error> {
    Ok(match only_field(field, message)? {
        Some(bytes) => Value::String(quantity::canonical(&text(bytes))?),
        None => Value::from("0"),
    })
}

fn raw(field: &Field, message: &[u8]) -> Result<Value, Error> {
    match only_field(field, message)? {
        Some(json) if !json.is_empty() => {
            serde_json::from_slice(json).map_err(|_| Error::NotJson(field.json.to_owned()))
        }
        _ => Ok(Value::Null),
    }
}

/// Returns the content of field 1 of a message without other fields.
fn only_field<'a>(field: &Field, message: &'a [u8]) -> Result<Option<&'a [u8]>, Error> {
    let mut content = None;
    let mut reader = Reader::new(message);
    while let Some(tag) = reader.tag("Quantity")? {
        match tag.number {
            1 => content = Some(length_delimited(&mut reader, tag, field)?),
            _ => reader.skip(tag.wire)?,
        }
    }
    Ok(content)
}

fn int_or_string(field: &Field, message: &[u8]) -> Result<Value, Error> {
    let (mut kind, mut number, mut string) = (0, 0, String::new());
    let mut reader = Reader::new(message);
    while let Some(tag) = reader.tag("IntOrString")? {
        match tag.number {
            1 => kind = varint(&mut reader, tag, field)?,
            2 => number = varint(&mut reader, tag, field)? as i32,
            3 => string = text(length_delimited(&mut reader, tag, field)?),
            _ => reader.skip(tag.wire)?,
        }
    }
    match kind {
        0 => Ok(Value::from(number)),
        1 => Ok(Value::String(string)),
        _ => Err(out_of_range(field)),
    }
}

/// Go prints whole numbers without a decimal point, so the tree has them as integers.
fn float(bits: u64) -> Option<Value> {
    let value = f64::from_bits(bits);
    if value.fract() == 0.0 && value.abs() < i64::MAX as f64 {
        return Some(Value::from(value as i64));
    }
    Number::from_f64(value).map(Value::Number)
}

/// Go accepts any bytes as a string, and prints each invalid one as U+FFFD.
fn text(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
    }
    text
}

fn varint(reader: &mut Reader<'_>, tag: Tag, field: &Field) -> Result<u64, Error> {
    expect(tag, VARINT, field)?;
    reader.varint()
}

fn length_delimited<'a>(
    reader: &mut Reader<'a>,
    tag: Tag,
    field: &Field,
) -> Result<&'a [u8], Error> {
    expect(tag, BYTES, field)?;
    reader.bytes()
}

fn expect(tag: Tag, wire: u8, field: &Field) -> Result<(), Error> {
    if tag.wire == wire {
        return Ok(());
    }
    let mut letters = field.json.chars();
    let first = letters.next().map(|first| first.to_ascii_uppercase());
    Err(Error::WrongWireType {
        wire: tag.wire,
        field: first.into_iter().chain(letters).collect(),
    })
}

fn out_of_range(field: &Field) -> Error {
    Error::OutOfRange(field.json.to_owned())
}

fn array(slot: &mut Value) -> &mut Vec<Value> {
    if !slot.is_array() {
        *slot = Value::Array(Vec::new());
    }
    slot.as_array_mut().expect("the slot holds a list")
}

fn object(slot: &mut Value) -> &mut Object {
    if !slot.is_object() {
        *slot = Value::Object(Object::new());
    }
    slot.as_object_mut().expect("the slot holds an object")
}

fn depth_of(value: &Value) -> usize {
    match value {
        Value::Array(list) => 1 + list.iter().map(depth_of).max().unwrap_or(0),
        Value::Object(map) => 1 + map.values().map(depth_of).max().unwrap_or(0),
        _ => 0,
    }
}
