//! A tool's arguments: parsed leniently, because a model wrote them, and rejected with advice.

use rmcp::model::{JsonObject, Tool};
use serde_json::Value;

/// The arguments of a tool call.
#[derive(Debug)]
pub struct Arguments(JsonObject);

impl Arguments {
    /// Returns the arguments; fails if one is unknown or a required one is missing.
    pub fn new(tool: &Tool, given: JsonObject) -> Result<Self, String> {
        let known = tool.input_schema.get("properties").and_then(Value::as_object);
        let names: Vec<&str> = known.into_iter().flatten().map(|(name, _)| name.as_str()).collect();
        if let Some(unknown) = given.keys().find(|name| !names.contains(&name.as_str())) {
            return Err(format!("{} has no argument '{unknown}'; it takes {}", tool.name, names.join(", ")));
        }
        let required = tool.input_schema.get("required").and_then(Value::as_array);
        let mut required = required.into_iter().flatten().filter_map(Value::as_str);
        if let Some(missing) = required.find(|name| given.get(*name).is_none_or(Value::is_null)) {
            return Err(format!("{} needs '{missing}'", tool.name));
        }
        Ok(Self(given))
    }

    /// Returns a string; empty if missing.
    pub fn text(&self, name: &str) -> Result<String, String> {
        match self.0.get(name) {
            None | Some(Value::Null) => Ok(String::new()),
            Some(Value::String(text)) => Ok(text.trim().to_owned()),
            Some(Value::Number(number)) => Ok(number.to_string()),
            Some(other) => Err(format!("{name} must be a string, not {}", type_name(other))),
        }
    }

    /// Returns a number from `least` to `most`; `usual` if missing.
    pub fn number(&self, name: &str, usual: u32, least: u32, most: u32) -> Result<u32, String> {
        let number = match self.0.get(name) {
            None | Some(Value::Null) => return Ok(usual),
            Some(Value::Number(number)) => number.as_f64(),
            Some(Value::String(text)) => text.trim().parse().ok(),
            Some(_) => None,
        };
        let number = number.filter(|number| *number >= 0.0);
        let number = number.ok_or_else(|| format!("{name} must be a number, 0 or more"))?;
        // A number out of range is clamped.
        Ok((number.min(f64::from(most)) as u32).max(least))
    }

    /// Returns strings from a list, a single string, or a comma-separated one.
    pub fn words(&self, name: &str) -> Result<Vec<String>, String> {
        let mut words = Vec::new();
        let items = match self.0.get(name) {
            None | Some(Value::Null) => return Ok(words),
            Some(Value::Array(items)) => items.as_slice(),
            Some(one) => std::slice::from_ref(one),
        };
        for item in items {
            match item {
                Value::String(text) => words.extend(text.split(',').map(|word| word.trim().to_owned())),
                Value::Number(number) => words.push(number.to_string()),
                other => {
                    return Err(format!(
                        "{name} must be a list of strings; it contains {}",
                        type_name(other)
                    ));
                }
            }
        }
        words.retain(|word| !word.is_empty());
        Ok(words)
    }

    /// Returns a boolean; false if missing.
    pub fn flag(&self, name: &str) -> Result<bool, String> {
        match self.0.get(name) {
            None | Some(Value::Null) => Ok(false),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(Value::String(word)) if word == "true" || word == "false" => Ok(word == "true"),
            Some(_) => Err(format!("{name} must be true or false")),
        }
    }

    /// Returns all other arguments as text, to recognise a repeated call.
    pub fn without(&self, name: &str) -> String {
        let mut others = self.0.clone();
        others.remove(name);
        Value::Object(others).to_string()
    }
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::tools;
    use super::*;

    fn given(tool: &str, arguments: Value) -> Result<Arguments, String> {
        let tool = tools::all().into_iter().find(|known| known.name == tool).unwrap();
        Arguments::new(&tool, arguments.as_object().unwrap().clone())
    }

    #[test]
    fn lenient_forms_are_accepted() {
        let arguments = given("get", json!({"ids": [12, "S3", "4, 5"]})).unwrap();
        assert_eq!(arguments.words("ids").unwrap(), ["12", "S3", "4", "5"]);
        assert_eq!(given("get", json!({"ids": "7"})).unwrap().words("ids").unwrap(), ["7"]);
        let arguments = given("timeline", json!({"id": 12, "before": "3", "after": 1e9})).unwrap();
        assert_eq!(arguments.text("id").unwrap(), "12");
        assert_eq!(arguments.number("before", 5, 0, 50).unwrap(), 3);
        assert_eq!(arguments.number("after", 5, 0, 50).unwrap(), 50);
    }

    #[test]
    fn invalid_arguments_are_rejected_with_advice() {
        assert!(given("search", json!({})).unwrap_err().contains("'query'"));
        assert!(given("search", json!({"query": "x", "q": 1})).unwrap_err().contains("it takes"));
        let arguments = given("search", json!({"query": {}, "limit": -1})).unwrap();
        assert!(arguments.text("query").is_err());
        assert!(arguments.number("limit", 20, 1, 100).is_err());
        assert!(given("get", json!({"ids": [[]]})).unwrap().words("ids").is_err());
        assert!(given("forget", json!({"ids": 1, "undo": 1})).unwrap().flag("undo").is_err());
    }
}
