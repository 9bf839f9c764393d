//! Changes. Each is a form that leads back to a page with its undo; our script sends the same forms without a reload.

use std::collections::HashMap;
use std::sync::Arc;

use axum::extract::{FromRequest, Path, Query, Request, State};
use axum::http::StatusCode;
use axum::http::header::LOCATION;
use axum::response::{IntoResponse, Response};
use serde_json::json;

use super::access::guard::WRITE_HEADER;
use super::pages::PageFrame;
use super::service::{Asked, PageError};
use super::{Viewer, notices, reply};
use crate::api::{
    Changed, Curated, EditRequest, MergeRequest, NoteHistory, PinRequest, Queued, VetoRequest, Vetoes, route,
};
use crate::client::encoded;

type Shared = State<Arc<Viewer>>;

/// Maximum size of a form.
const MAX_FORM: usize = 1 << 20;

/// A form that one of our pages sent: it has our token, or the header that our script adds.
pub struct Form(Vec<(String, String)>);

impl FromRequest<Arc<Viewer>> for Form {
    type Rejection = Response;

    async fn from_request(request: Request, viewer: &Arc<Viewer>) -> Result<Self, Response> {
        let is_by_script = request.headers().get(WRITE_HEADER).is_some_and(|value| value == "1");
        let bytes = axum::body::to_bytes(request.into_body(), MAX_FORM).await;
        let bytes =
            bytes.map_err(|_| reply::refused(StatusCode::PAYLOAD_TOO_LARGE, "The form is too large."))?;
        let form = Self(fields(&bytes));
        if is_by_script || viewer.access.is_form_token(form.get("token")) {
            return Ok(form);
        }
        Err(reply::refused(StatusCode::FORBIDDEN, "Only the viewer's own pages may change memories."))
    }
}

/// Parses a form as browsers encode it.
fn fields(bytes: &[u8]) -> Vec<(String, String)> {
    let pairs = bytes.split(|byte| *byte == b'&').filter(|pair| !pair.is_empty());
    let field = |pair: &[u8]| {
        let end = pair.iter().position(|byte| *byte == b'=').unwrap_or(pair.len());
        (decoded(&pair[..end]), decoded(pair.get(end + 1..).unwrap_or_default()))
    };
    pairs.map(field).collect()
}

fn decoded(text: &[u8]) -> String {
    let hex = |at: usize| text.get(at).and_then(|digit| char::from(*digit).to_digit(16));
    let mut bytes = Vec::with_capacity(text.len());
    let mut at = 0;
    while at < text.len() {
        match (text[at], hex(at + 1), hex(at + 2)) {
            (b'%', Some(high), Some(low)) => {
                bytes.push((high * 16 + low) as u8);
                at += 2;
            }
            (b'+', ..) => bytes.push(b' '),
            (byte, ..) => bytes.push(byte),
        }
        at += 1;
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

impl Form {
    fn get<'a>(&'a self, name: &'a str) -> &'a str {
        self.all(name).next().unwrap_or_default()
    }

    fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// A field that may be missing.
    fn optional(&self, name: &str) -> Option<String> {
        self.all(name).next().map(|value| value.replace("\r\n", "\n"))
    }
}

/// Leads back to a page, or explains why nothing changed.
fn done(page: &'static str, outcome: Asked<String>) -> Response {
    match outcome {
        Ok(path) => (StatusCode::SEE_OTHER, [(LOCATION, path)]).into_response(),
        Err(trouble) => {
            let status = if trouble.is_missing() { StatusCode::NOT_FOUND } else { StatusCode::BAD_REQUEST };
            let frame = PageFrame {
                page,
                title: "Nothing was changed",
                notice: Some(notices::failed(&trouble.message())),
            };
            let back =
                maud::html! { h1 { "Nothing was changed" } p { a href="/memory" { "Back to Memory" } } };
            (status, reply::page(frame.around(&back))).into_response()
        }
    }
}

/// `POST /memory/{id}/{action}`
pub async fn memory(
    State(viewer): Shared,
    Path((id, action)): Path<(String, String)>,
    Query(address): Query<HashMap<String, String>>,
    form: Form,
) -> Response {
    // A learning has no page of its own.
    let page = if id.starts_with('L') { "/memory".to_owned() } else { format!("/memory/{}", encoded(&id)) };
    let said = |word: &str| format!("{page}?done={word}&id={}", encoded(&id));
    let service = &viewer.service;
    let outcome = match action.as_str() {
        "forget" => service.delete::<Changed>(route::OBSERVATION, &id).await.map(|_| said("forgotten")),
        "restore" => service.post_by_id::<Changed>(route::RESTORE, &id, &()).await.map(|_| said("restored")),
        "pin" | "unpin" => {
            let pinned = action == "pin";
            let changed = service.post_by_id::<Changed>(route::PIN, &id, &PinRequest { pinned }).await;
            changed.map(|_| said(if pinned { "pinned" } else { "unpinned" }))
        }
        "veto" => veto(&viewer, &id).await.map(|ids| format!("{}&vetoes={ids}", said("vetoed"))),
        "unveto" => unveto(&viewer, &id, address.get("vetoes").map_or("", String::as_str))
            .await
            .map(|()| said("restored")),
        "keep" => service.post_by_id::<Changed>(route::KEEP, &id, &()).await.map(|_| said("kept")),
        "unedit" => unedit(&viewer, &id).await.map(|()| said("reverted")),
        "unmerge" => restore_all(&viewer, address.get("ids").map_or("", String::as_str))
            .await
            .map(|()| said("restored")),
        "edit" | "revert" => {
            let request = edit(&form, action == "revert");
            let changed = service.post_by_id::<Changed>(route::EDIT, &id, &request).await;
            changed.map(|changed| said(if changed.changed { "edited" } else { "same" }))
        }
        "merge" => {
            let ids: Vec<i64> = form.all("merge").filter_map(|id| id.parse().ok()).collect();
            let changed = service.post_by_id::<Changed>(route::MERGE, &id, &MergeRequest { ids }).await;
            let merged: Vec<&str> = form.all("merge").collect();
            changed.map(|changed| match changed.changed {
                true => format!("{}&ids={}", said("merged"), encoded(&merged.join("."))),
                false => said("same"),
            })
        }
        _ => return reply::refused(StatusCode::NOT_FOUND, "There is no such action."),
    };
    done("memory", outcome)
}

/// Returns to the version before the last edit.
async fn unedit(viewer: &Viewer, id: &str) -> Asked<()> {
    let history: NoteHistory = viewer.service.get_by_id(route::NOTE, id, &()).await?;
    let version = history.versions.first().map(|version| version.id);
    let request = EditRequest { version: Some(version.unwrap_or_default()), ..EditRequest::default() };
    viewer.service.post_by_id::<Changed>(route::EDIT, id, &request).await.map(drop)
}

async fn restore_all(viewer: &Viewer, ids: &str) -> Asked<()> {
    for id in ids.split('.').filter(|id| !id.is_empty()) {
        viewer.service.post_by_id::<Changed>(route::RESTORE, id, &()).await?;
    }
    Ok(())
}

fn edit(form: &Form, is_revert: bool) -> EditRequest {
    if is_revert {
        return EditRequest {
            version: Some(form.get("version").parse().unwrap_or_default()),
            ..EditRequest::default()
        };
    }
    let lines = |text: String| {
        text.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect()
    };
    EditRequest {
        title: form.optional("title"),
        summary: form.optional("summary"),
        detail: form.optional("detail"),
        facts: form.optional("facts").map(lines),
        version: None,
    }
}

async fn veto(viewer: &Viewer, id: &str) -> Asked<String> {
    let request = VetoRequest { memory: id.to_owned(), ..VetoRequest::default() };
    let made: Vetoes = viewer.service.post(route::VETOES, &request).await?;
    Ok(made.vetoes.iter().map(|veto| veto.id.to_string()).collect::<Vec<_>>().join("."))
}

/// Lifts vetoes, and restores the memory that they were made of.
async fn unveto(viewer: &Viewer, id: &str, vetoes: &str) -> Asked<()> {
    for veto in vetoes.split('.').filter(|veto| !veto.is_empty()) {
        match viewer.service.delete::<Changed>(route::VETO, veto).await {
            Err(trouble) if !trouble.is_missing() => return Err(trouble),
            _ => {}
        }
    }
    viewer.service.post_by_id::<Changed>(route::RESTORE, id, &()).await.map(drop)
}

/// `POST /veto/{id}/lift`
pub async fn lift_veto(State(viewer): Shared, Path(id): Path<String>, _form: Form) -> Response {
    let lifting = async {
        let curated: Curated = viewer.service.get(route::CURATED, &()).await?;
        viewer.service.delete::<Changed>(route::VETO, &id).await?;
        // The address carries the veto, so that it can be made again.
        let veto = curated.vetoes.into_iter().find(|veto| veto.id.to_string() == id).unwrap_or_default();
        let statement: String = veto.statement.chars().take(300).collect();
        let (statement, project) = (encoded(&statement), encoded(&veto.project));
        Ok(format!("/memory?done=lifted&line={}&project={project}&statement={statement}", veto.key))
    };
    done("memory", lifting.await)
}

/// `POST /context/veto`: switches a line of the context off.
pub async fn switch_off(State(viewer): Shared, form: Form) -> Response {
    let request = VetoRequest {
        memory: form.get("memory").to_owned(),
        statement: form.get("statement").to_owned(),
        project: form.get("project").to_owned(),
        line: form.get("line").parse().ok(),
    };
    let made = viewer.service.post::<Vetoes>(route::VETOES, &request).await;
    let back = match form.get("back") {
        "memory" => "/memory?".to_owned(),
        _ => format!("/context?project={}", encoded(form.get("project"))),
    };
    let outcome = made.map(|made| match request.memory.as_str() {
        "" => format!("{back}&done=off&id={}", made.vetoes.first().map_or(0, |veto| veto.id)),
        memory => {
            let ids: Vec<String> = made.vetoes.iter().map(|veto| veto.id.to_string()).collect();
            format!("{back}&done=vetoed&id={}&vetoes={}", encoded(memory), ids.join("."))
        }
    });
    done("context", outcome)
}

/// `POST /queue/retry?id=`
pub async fn retry(
    State(viewer): Shared,
    Query(address): Query<HashMap<String, String>>,
    _form: Form,
) -> Response {
    let route = match address.get("id").and_then(|id| id.parse::<i64>().ok()) {
        Some(id) => format!("{}?id={id}", route::RETRY),
        None => route::RETRY.to_owned(),
    };
    let retried = viewer.service.post::<Queued>(&route, &json!({})).await;
    done("now", retried.map(|_| "/?done=retried".into()))
}

/// `POST /health/{action}`
pub async fn health(State(viewer): Shared, Path(action): Path<String>, _form: Form) -> Response {
    match action.as_str() {
        "check" | "fix" => {
            viewer.checks.run(Arc::clone(&viewer.machine), action == "fix").await;
            done("health", Ok("/health?done=checked".into()))
        }
        "backup" => {
            let machine = Arc::clone(&viewer.machine);
            let made = tokio::task::spawn_blocking(move || machine.back_up()).await;
            let outcome = match made {
                Ok(Ok(_)) => Ok("/health?done=backed-up".into()),
                Ok(Err(error)) => {
                    Err(PageError::Refused(crate::api::ApiError::degraded(format!("{error:#}"))))
                }
                Err(_) => Err(PageError::Down),
            };
            done("health", outcome)
        }
        _ => reply::refused(StatusCode::NOT_FOUND, "There is no such action."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_are_decoded_whatever_their_length() {
        let long = "x".repeat(200_000);
        let body = format!("title=a+b%20%C3%BC&facts={long}&merge=1&merge=2&empty=&bad=%zz%4");
        let form = Form(fields(body.as_bytes()));
        assert_eq!((form.get("title"), form.get("facts").len()), ("a b ü", 200_000));
        assert_eq!(form.all("merge").collect::<Vec<_>>(), ["1", "2"]);
        assert_eq!((form.get("empty"), form.get("bad")), ("", "%zz%4"));
    }
}
