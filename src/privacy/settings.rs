//! The settings in force as people may see them: without secrets.

use std::path::Path;

use super::redact::Redactor;
use crate::api::Setting;
use crate::config::{Config, Environment};

/// Every setting with its value and its origin.
pub fn in_force(file: &Path, environment: &Environment) -> Vec<Setting> {
    let redactor = Redactor::new();
    let setting = |[key, value, origin]: [String; 3]| Setting {
        key,
        value: redactor.redact(&value).into_string(),
        origin,
    };
    Config::in_force(file, environment).into_iter().map(setting).collect()
}
