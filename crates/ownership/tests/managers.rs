//! Sequences of writes by several managers, as recorded from Kubernetes' own field manager: after
//! each step the object, its managed fields and the error are the same.

#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

use insula_kinds::{Object, TypeId, Value, encode, types};
use insula_ownership::managers::scale::Parent;
use insula_ownership::managers::{ApplyError, Subject, Version, Writer, forget, zero};
use insula_ownership::{Element, Path, Schema, Set};
use serde_json::json;

/// The recorded steps; a variable can name more.
const RECORDED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/managers.jsonl");

#[test]
fn every_recorded_step_has_the_recorded_result() {
    let path = std::env::var("INSULA_MANAGERS").unwrap_or_else(|_| RECORDED.to_owned());
    let text = std::fs::read_to_string(path).unwrap();
    let (mut steps, mut wrong) = (0, Vec::new());
    for (number, line) in text.lines().enumerate() {
        let sequence: Value = serde_json::from_str(line).unwrap();
        let kind = sequence["kind"].as_str().unwrap();
        let mut live = None;
        for (index, step) in sequence["steps"].as_array().unwrap().iter().enumerate() {
            steps += 1;
            if let Err(difference) = replay(kind, &mut live, step) {
                wrong.push(format!(
                    "sequence {number} step {index}: {kind}: {difference}"
                ));
            }
        }
    }
    assert!(steps > 200, "{steps}");
    let shown = &wrong[..wrong.len().min(10)];
    assert_eq!(wrong.len(), 0, "of {steps} steps:\n{}", shown.join("\n"));
}

/// Replays a step, and sets the live object to the recorded one.
fn replay(kind: &str, live: &mut Option<Object>, step: &Value) -> Result<(), String> {
    match step["op"].as_str().unwrap() {
        "scale" => scaled(live.as_mut().unwrap(), step),
        op => {
            let scene = Scene::of(kind, step);
            let before = match &live {
                Some(live) => scene.entering(live),
                None => scene.zero.clone(),
            };
            let outcome = match op {
                "apply" => applied(&scene, &before, step),
                _ => updated(&scene, &before, step),
            };
            if step.get("error").is_none() {
                *live = Some(scene.leaving(after(&before, step)));
            }
            outcome
        }
    }
}

/// The kind of a step.
struct Scene<'a> {
    api_version: String,
    schema: Schema,
    reset: Set,
    zero: Object,
    /// `None` for custom resources.
    of: Option<(String, TypeId)>,
    writer: Writer<'a>,
}

impl<'a> Scene<'a> {
    fn of(kind: &str, step: &'a Value) -> Self {
        let writer = Writer {
            manager: step["manager"].as_str().unwrap(),
            subresource: step["sub"].as_str().unwrap_or_default(),
            now: step["now"].as_str().unwrap(),
        };
        let reset = match (kind, writer.subresource) {
            ("ConfigMap" | "Scale", _) => Set::default(),
            (_, "status") => paths(&["spec", "metadata.labels"]),
            _ => paths(&["status"]),
        };
        if kind == "Foo" {
            let version = step["version"].as_str().unwrap_or("v1");
            let api_version = format!("ex.io/{version}");
            let zero = object(json!({"apiVersion": api_version, "kind": "Foo"}));
            return Self {
                api_version,
                schema: Schema::clone(&Schema::custom(None)),
                reset,
                zero,
                of: None,
                writer,
            };
        }
        let (api_version, of) = match kind {
            "Deployment" => ("apps/v1", "api.apps.v1.Deployment".to_owned()),
            "Scale" => ("autoscaling/v1", "api.autoscaling.v1.Scale".to_owned()),
            _ => ("v1", format!("api.core.v1.{kind}")),
        };
        let of = types().find(&of).unwrap();
        Self {
            api_version: api_version.to_owned(),
            schema: Schema::built_in(of),
            reset,
            zero: zero::of_type(api_version, kind, of),
            of: Some((kind.to_owned(), of)),
            writer,
        }
    }

    fn with<T>(&self, act: impl FnOnce(Subject<'_>) -> T) -> T {
        let convert = |object: &Object, version: &str| {
            let known = version == "ex.io/v1" || version == "ex.io/v1beta1";
            (known && self.of.is_none()).then(|| Version {
                object: in_version(object, version),
                schema: self.schema.clone(),
                reset: self.reset.clone(),
            })
        };
        act(Subject {
            api_version: &self.api_version,
            schema: &self.schema,
            reset: &self.reset,
            zero: &self.zero,
            convert: &convert,
        })
    }

    fn entering(&self, live: &Object) -> Object {
        match self.of {
            Some(_) => live.clone(),
            None => in_version(live, &self.api_version),
        }
    }

    fn leaving(&self, live: Object) -> Object {
        match self.of {
            Some(_) => live,
            None => in_version(&live, "ex.io/v1"),
        }
    }

    /// Returns the object as it is written.
    fn as_written(&self, made: &Object) -> Object {
        let Some((kind, of)) = &self.of else {
            return made.clone();
        };
        let mut out = Vec::new();
        encode::json(&self.api_version, kind, *of, made, &mut out);
        let mut object: Object = serde_json::from_slice(&out).unwrap();
        for map in ["/metadata/labels", "/metadata/annotations", "/data"] {
            let mut value = Value::Object(std::mem::take(&mut object));
            // In a map of strings, null becomes the empty string when decoded.
            let texts = value.pointer_mut(map).and_then(Value::as_object_mut);
            for text in texts.into_iter().flat_map(|texts| texts.values_mut()) {
                if text.is_null() {
                    *text = json!("");
                }
            }
            object = self::object(value);
        }
        object
    }
}

fn updated(scene: &Scene<'_>, live: &Object, step: &Value) -> Result<(), String> {
    let mut new = object(step["object"].clone());
    let sent = match step.get("sent") {
        Some(sent) => Some(sent.clone()),
        None => managed(live),
    };
    if let Some(sent) = sent.filter(|sent| !sent.is_null()) {
        new["metadata"]["managedFields"] = sent;
    }
    scene.with(|subject| subject.update(live, &mut new, scene.writer));
    same(
        "managed",
        &managed(&new).unwrap_or_default(),
        &step["managed"],
    )
}

fn applied(scene: &Scene<'_>, live: &Object, step: &Value) -> Result<(), String> {
    let config = object(step["config"].clone());
    let force = step["force"] == true;
    let made = scene.with(|subject| subject.apply(live, &config, scene.writer, force));
    let made = match made {
        Ok(made) => made,
        Err(error) => return refused(&error, step),
    };
    if let Some(error) = step.get("error") {
        return Err(format!("is applied, and should not be: {error}"));
    }
    same(
        "managed",
        &managed(&made).unwrap_or_default(),
        &step["managed"],
    )?;
    let mut made = scene.leaving(scene.as_written(&made));
    made["metadata"]["uid"] = json!("u");
    let mut wanted = scene.leaving(after(live, step));
    forget(&mut made);
    forget(&mut wanted);
    same("object", &made.into(), &wanted.into())
}

fn refused(error: &ApplyError, step: &Value) -> Result<(), String> {
    same(
        "message",
        &error.to_string().into(),
        &step["error"]["message"],
    )?;
    if let ApplyError::Conflict { causes, .. } = error {
        let mut made: Vec<_> = causes.iter().map(|cause| json!(cause)).collect();
        let mut wanted = step["error"]["causes"].as_array().unwrap().clone();
        // Kubernetes lists them in the order of a Go map.
        made.sort_by_key(Value::to_string);
        wanted.sort_by_key(Value::to_string);
        return same("causes", &made.into(), &wanted.into());
    }
    let reason = step["error"]["reason"].as_str().unwrap_or_default();
    let bad = matches!(error, ApplyError::BadRequest(_));
    same("reason", &bad.into(), &(reason == "BadRequest").into())
}

/// Writes through the scale of a deployment.
fn scaled(live: &mut Object, step: &Value) -> Result<(), String> {
    let path = Path(fields("spec.replicas"));
    let replicas = [("apps/v1", Some(path))];
    let parent = Parent {
        api_version: "apps/v1",
        replicas: &replicas,
    };
    let was = live["spec"].get("replicas").cloned().unwrap_or(json!(0));
    let mut old = object(json!({"apiVersion": "autoscaling/v1", "kind": "Scale",
        "metadata": {"name": "x", "uid": "u"}, "spec": {"replicas": was}}));
    let mut scene = Scene::of("Scale", step);
    scene.writer.subresource = "scale";
    old = scene.as_written(&old);
    parent.to_scale(live, &mut old).unwrap();
    same(
        "scaled",
        &managed(&old).unwrap_or_default(),
        &step["scaled"],
    )?;
    let mut new = old.clone();
    if step["apply"] == true {
        let config = object(json!({"apiVersion": "autoscaling/v1", "kind": "Scale",
            "metadata": {"name": "x"}, "spec": {"replicas": step["replicas"]}}));
        let force = step["force"] == true;
        match scene.with(|subject| subject.apply(&old, &config, scene.writer, force)) {
            Ok(made) => new = made,
            Err(error) => return refused(&error, step),
        }
    } else {
        new["spec"]["replicas"] = step["replicas"].clone();
        scene.with(|subject| subject.update(&old, &mut new, scene.writer));
    }
    let between = same(
        "between",
        &managed(&new).unwrap_or_default(),
        &step["between"],
    );
    parent.to_parent(&new, live).unwrap();
    live["spec"]["replicas"] = step["replicas"].clone();
    let end = same(
        "managed",
        &managed(live).unwrap_or_default(),
        &step["managed"],
    );
    live["metadata"]["managedFields"] = step["managed"].clone();
    between.and(end)
}

/// Returns the live object after a step.
fn after(live: &Object, step: &Value) -> Object {
    let mut object = match step.get("object") {
        Some(made) => object(made.clone()),
        None => live.clone(),
    };
    let metadata = object.entry("metadata").or_insert(json!({}));
    metadata["uid"] = json!("u");
    forget(&mut object);
    if !step["managed"].is_null() {
        object["metadata"]["managedFields"] = step["managed"].clone();
    }
    object
}

/// Converts `spec.replicas` of `v1` to `spec.size` of `v1beta1`.
fn in_version(object: &Object, version: &str) -> Object {
    let mut object = object.clone();
    if object["apiVersion"] == version {
        return object;
    }
    let (from, to) = match version {
        "ex.io/v1" => ("size", "replicas"),
        _ => ("replicas", "size"),
    };
    object["apiVersion"] = json!(version);
    if let Some(Value::Object(spec)) = object.get_mut("spec")
        && let Some(value) = spec.remove(from)
    {
        spec.insert(to.to_owned(), value);
    }
    object
}

fn managed(object: &Object) -> Option<Value> {
    object.get("metadata")?.get("managedFields").cloned()
}

fn same(what: &str, made: &Value, wanted: &Value) -> Result<(), String> {
    let of = |value: &Value| match value {
        Value::Array(list) if list.is_empty() => Value::Null,
        value => value.clone(),
    };
    match of(made) == of(wanted) {
        true => Ok(()),
        false => Err(format!("{what}:\n   made {made}\n wanted {wanted}")),
    }
}

fn object(value: Value) -> Object {
    value.as_object().unwrap().clone()
}

fn fields(path: &str) -> Vec<Element> {
    let field = |name: &str| Element::Field(name.into());
    path.split('.').map(field).collect()
}

fn paths(paths: &[&str]) -> Set {
    let paths: Vec<_> = paths.iter().map(|path| fields(path)).collect();
    Set::of(paths.iter().map(Vec::as_slice))
}
