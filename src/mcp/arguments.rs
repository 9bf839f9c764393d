//! A tool's arguments: read kindly, because a model wrote them, and refused with advice.

use rmcp::model::{JsonObject, Tool};
use serde_json::Value;

/// What a tool was called with.
#[derive(Debug)]
pub struct Arguments(JsonObject);

impl Arguments {
    /// The arguments, if the tool has all of them.
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

    /// A text; empty if it is not there.
    pub fn text(&self, name: &str) -> Result<String, String> {
        match self.0.get(name) {
            None | Some(Value::Null) => Ok(String::new()),
            Some(Value::String(text)) => Ok(text.trim().to_owned()),
            Some(Value::Number(number)) => Ok(number.to_string()),
            Some(other) => Err(format!("{name} is a text, not {}", told(other))),
        }
    }

    /// A number from `least` to `most`, or the usual one.
    pub fn number(&self, name: &str, usual: u32, least: u32, most: u32) -> Result<u32, String> {
        let number = match self.0.get(name) {
            None | Some(Value::Null) => return Ok(usual),
            Some(Value::Number(number)) => number.as_f64(),
            Some(Value::String(text)) => text.trim().parse().ok(),
            Some(_) => None,
        };
        let number = number.filter(|number| *number >= 0.0);
        let number = number.ok_or_else(|| format!("{name} is a number, 0 or more"))?;
        // Beyond what is meant by anybody: as near as can be.
        Ok((number.min(f64::from(most)) as u32).max(least))
    }

    /// Texts: a list, or one of them, or several with commas between.
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
                other => return Err(format!("{name} is a list of texts; there is {} in it", told(other))),
            }
        }
        words.retain(|word| !word.is_empty());
        Ok(words)
    }

    /// Yes or no.
    pub fn flag(&self, name: &str) -> Result<bool, String> {
        match self.0.get(name) {
            None | Some(Value::Null) => Ok(false),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(Value::String(word)) if word == "true" || word == "false" => Ok(word == "true"),
            Some(_) => Err(format!("{name} is true or false")),
        }
    }

    /// All arguments as text, to know the same call again.
    pub fn without(&self, name: &str) -> String {
        let mut others = self.0.clone();
        others.remove(name);
        Value::Object(others).to_string()
    }
}

fn told(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
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
    fn what_a_model_means_is_understood() {
        let arguments = given("get", json!({"ids": [12, "S3", "4, 5"]})).unwrap();
        assert_eq!(arguments.words("ids").unwrap(), ["12", "S3", "4", "5"]);
        assert_eq!(given("get", json!({"ids": "7"})).unwrap().words("ids").unwrap(), ["7"]);
        let arguments = given("timeline", json!({"id": 12, "before": "3", "after": 1e9})).unwrap();
        assert_eq!(arguments.text("id").unwrap(), "12");
        assert_eq!(arguments.number("before", 5, 0, 50).unwrap(), 3);
        assert_eq!(arguments.number("after", 5, 0, 50).unwrap(), 50);
    }

    #[test]
    fn what_makes_no_sense_is_told() {
        assert!(given("search", json!({})).unwrap_err().contains("'query'"));
        assert!(given("search", json!({"query": "x", "q": 1})).unwrap_err().contains("it takes"));
        let arguments = given("search", json!({"query": {}, "limit": -1})).unwrap();
        assert!(arguments.text("query").is_err());
        assert!(arguments.number("limit", 20, 1, 100).is_err());
        assert!(given("get", json!({"ids": [[]]})).unwrap().words("ids").is_err());
        assert!(given("forget", json!({"ids": 1, "undo": 1})).unwrap().flag("undo").is_err());
    }
}
