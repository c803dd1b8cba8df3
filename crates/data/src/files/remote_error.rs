//! What a store answered, as an error of this crate that names the URL.

use std::error::Error as _;

use super::file_url::Scheme;
use super::public_addresses::NotPublic;
use crate::error::DataError;

/// Where stores look for credentials when the environment holds none.
const METADATA_SERVERS: [&str; 3] = ["169.254.169.254", "metadata.google.internal", "metadata.goog"];

/// How the library says that a server gave a whole file where a part was asked for.
const NO_RANGES: [&str; 2] = ["Received non-partial response", "Range request not supported"];

/// The error for a URL.
pub(super) fn explained(url: &str, scheme: Scheme, error: &object_store::Error) -> DataError {
    let path = url.to_owned();
    if began_with_not_public(error) {
        return DataError::NotServed { path, option: "--data-url".into() };
    }
    match error {
        object_store::Error::NotFound { .. } => DataError::Missing { path },
        object_store::Error::PermissionDenied { .. } | object_store::Error::Unauthenticated { .. } => {
            DataError::Denied { path }
        }
        object_store::Error::Precondition { .. } | object_store::Error::NotModified { .. } => changed(url),
        _ => {
            let (whole, began) = (error.to_string(), root(error));
            if METADATA_SERVERS.iter().any(|server| whole.contains(server)) {
                return DataError::Io { path, why: no_credentials(scheme).to_owned() };
            }
            // Of a listing the status is said in words alone.
            let answered = |status: u16| began.contains(&format!("status code: {status}"));
            if answered(404) {
                return DataError::Missing { path };
            }
            if answered(401) || answered(403) {
                return DataError::Denied { path };
            }
            if answered(416) {
                return changed(url);
            }
            let why = match NO_RANGES.iter().any(|said| whole.contains(said)) {
                true => "the server does not support range requests, which GT needs to read files".to_owned(),
                false => began,
            };
            DataError::Io { path, why }
        }
    }
}

/// A file that is not what it was when it was opened (FILES-2).
pub(super) fn changed(url: &str) -> DataError {
    DataError::Schema {
        path: url.to_owned(),
        why: "the file changed after it was indexed; open the data set again".into(),
    }
}

/// Whether a server was not asked because of where it is.
fn began_with_not_public(error: &object_store::Error) -> bool {
    let mut at = error.source();
    while let Some(inner) = at {
        if inner.is::<NotPublic>() {
            return true;
        }
        at = inner.source();
    }
    false
}

/// What began it: the layers above repeat the URL and how often they tried.
fn root(error: &object_store::Error) -> String {
    let (mut text, mut at) = (error.to_string(), error.source());
    while let Some(inner) = at {
        text = inner.to_string();
        at = inner.source();
    }
    text.trim().trim_end_matches(':').to_owned()
}

fn no_credentials(scheme: Scheme) -> &'static str {
    match scheme {
        Scheme::S3 => {
            "no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_SKIP_SIGNATURE=true for public data"
        }
        Scheme::Google => {
            "no credentials: set GOOGLE_APPLICATION_CREDENTIALS, or GOOGLE_SKIP_SIGNATURE=true for public data"
        }
        Scheme::Azure => {
            "no credentials: set AZURE_STORAGE_ACCOUNT_KEY or another of Azure's variables, or AZURE_SKIP_SIGNATURE=true for public data"
        }
        Scheme::Http => "no credentials",
    }
}
