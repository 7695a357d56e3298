//! kubectl's everyday vocabulary, as two tenants type it at the same time under the same
//! names, and as the system's administrator does.
//!
//! Every command's text is checked, not only that it succeeded.
//!
//! | word | where | what is said of it |
//! |---|---|---|
//! | annotate, label | `change` | `--overwrite`, removal |
//! | api-resources, api-versions, cluster-info, version | `server`, `local` | a tenant sees a whole cluster of its own; `cluster-info dump` needs nodes: `system` |
//! | apply | `apply`, `server_side`, `kustomize` | folders, dry runs, `view-last-applied`, `--prune`, `-k`; `--server-side` with conflicts, force and migration |
//! | attach, cp, exec, logs, port-forward | `server` | refused: nothing runs pods |
//! | auth can-i, whoami, reconcile | `auth`, `roles` | by bindings, in one space |
//! | autoscale, expose, run | `create` | |
//! | certificate approve, deny | `credentials` | |
//! | completion, options, plugin list, help | `local` | completes what the space has |
//! | config | `local`, `credentials` | contexts, users, clusters |
//! | cordon, uncordon, drain, taint | `system` | nodes are the system's |
//! | create | `create`, `tokens` | all that have a command, and tokens |
//! | debug | `server` | adds its container to the pod |
//! | delete | `remove` | by name, by label, all; a namespace with everything in it |
//! | describe | `describe` | |
//! | diff | `apply`, `server_side`, `kustomize` | `--server-side` |
//! | edit | `apply` | `--output-patch` |
//! | events | `waiting` | |
//! | explain | `server`, `output` | `--recursive`, `--api-version`, kinds of one's own, from OpenAPI 2 and 3 |
//! | get | `read`, `output`, `waiting`, `raw` | tables, wide, yaml, json, name, jsonpath, columns, templates, from files, sorted, by selectors, `-A`, `-w`, `--raw`, `--subresource` |
//! | kustomize | `kustomize` | |
//! | patch | `change` | three ways |
//! | proxy | `raw` | watches too |
//! | replace | `apply`, `raw` | `--force`, `--raw` |
//! | rollout | `rollout` | pause, resume and restart; history, undo and status of what a controller of the tenant's own leaves behind: there is none here |
//! | scale, set | `change`, `output` | |
//! | top | `server` | refused: there are no metrics |
//! | wait | `waiting` | condition, jsonpath, create, delete, many at once |

mod apply;
mod audit;
mod auth;
mod cast;
mod change;
mod create;
mod credentials;
mod custom;
mod describe;
mod impersonation;
mod kustomize;
mod local;
mod manifests;
mod output;
mod raw;
mod read;
mod remove;
mod roles;
mod rollout;
mod server;
mod server_side;
mod system;
mod tenants;
mod tokens;
mod waiting;
