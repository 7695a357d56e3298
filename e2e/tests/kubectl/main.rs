//! kubectl commands, run by two tenants concurrently under the same names, and by the system
//! administrator.
//!
//! The output of every command is checked, not only its success.
//!
//! | command | module | coverage |
//! |---|---|---|
//! | annotate, label | `change` | `--overwrite`, removal |
//! | api-resources, api-versions, cluster-info, version | `server`, `local` | a tenant sees a complete cluster; `cluster-info dump`: `nodes` |
//! | apply | `apply`, `server_side`, `kustomize` | folders, dry runs, `view-last-applied`, `--prune`, `-k`; `--server-side` with conflicts, force and migration |
//! | attach, cp, exec, logs, port-forward | `server` | refused: no kubelet runs pods |
//! | auth can-i, whoami, reconcile | `auth`, `roles` | by bindings, in one space |
//! | autoscale, expose, run | `create` | |
//! | certificate approve, deny | `credentials` | |
//! | completion, options, plugin list, help | `local` | completes the space's objects |
//! | config | `local`, `credentials`, `kubeconfigs` | contexts, users, clusters, several files |
//! | cordon, uncordon, drain, taint | `nodes` | nodes of the space |
//! | create | `create`, `tokens` | all create commands, and tokens |
//! | debug | `server` | adds its container to the pod |
//! | delete | `delete` | by name, by label, all; a namespace with everything in it |
//! | describe | `describe` | |
//! | diff | `apply`, `server_side`, `kustomize` | `--server-side` |
//! | edit | `apply` | `--output-patch` |
//! | events | `waiting` | |
//! | explain | `server`, `output` | `--recursive`, `--api-version`, custom kinds, from OpenAPI 2 and 3 |
//! | get | `read`, `output`, `waiting`, `raw` | tables, wide, yaml, json, name, jsonpath, columns, templates, from files, sorted, by selectors, `-A`, `-w`, `--raw`, `--subresource` |
//! | kustomize | `kustomize` | |
//! | patch | `change` | all three patch types |
//! | proxy | `raw` | watches too |
//! | replace | `apply`, `raw` | `--force`, `--raw` |
//! | rollout | `rollout` | pause, resume and restart; history, undo and status of the ReplicaSets of a tenant's own controller |
//! | scale, set | `change`, `output` | |
//! | top | `server` | refused: there are no metrics |
//! | wait | `waiting` | condition, jsonpath, create, delete, several objects |

mod apply;
mod audit;
mod auth;
mod change;
mod create;
mod credentials;
mod custom;
mod delete;
mod describe;
mod impersonation;
mod kubeconfigs;
mod kustomize;
mod local;
mod manifests;
mod nodes;
mod output;
mod raw;
mod read;
mod roles;
mod rollout;
mod server;
mod server_side;
mod system;
mod tenants;
mod tokens;
mod users;
mod waiting;
