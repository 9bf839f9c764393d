//! A published model of the family of BERT, with weights of one byte: 384 dimensions, English above all.

use std::path::Path;
use std::sync::Arc;

use rten::{Model, ModelOptions, OpRegistry, RunOptions, ThreadPool, op_registry};
use rten_tensor::NdTensor;
use rten_tensor::prelude::*;

use super::published::Published;
use super::wordpiece::WordPiece;
use super::{EmbeddingError, Pace, Role, Scale, Vector, package};
use crate::search::language::glossary::in_english;

/// The number of dimensions of a direction.
pub const DIMENSION: usize = 384;
/// The longest text that the models were made for, in tokens.
const MOST_TOKENS: usize = 256;

/// The vocabulary of BERT, uncased (Google, Apache-2.0), which the packages lack.
const VOCABULARY: &[u8] = include_bytes!("../../../assets/bert-uncased.vocab.zlib");
/// Unpacked it is a quarter of a megabyte.
const MOST_VOCABULARY_BYTES: usize = 1 << 20;

/// All texts of a model point into one half of the space, e5-small's into a narrow cone. The mean of texts with nothing in common
/// is its middle: without it cosines differ more, and sketches keep near vectors near.
const UNRELATED: [&str; 14] = [
    "Notes of a meeting.",
    "How to cook rice",
    "The history of the city",
    "A letter to a friend about the holidays",
    "Fix the login page of the website",
    "The weather will be cold tomorrow",
    "Price list for office furniture",
    "A poem about the sea",
    "Update the database schema",
    "The patient should rest for two days",
    "Rules of the game",
    "He said that he would come later",
    "Annual report on traffic in the region",
    "Install the package and restart the server",
];

/// The model, loaded.
pub struct Bert {
    published: &'static Published,
    model: Model,
    tokens: WordPiece,
    /// The mean of unrelated texts, which says nothing about any of them.
    center: Vec<f32>,
    /// One thread for each pace: a query takes a few milliseconds, and the background should not take the machine.
    threads: [Arc<ThreadPool>; 2],
}

impl Bert {
    /// Loads a model from the directory of models.
    pub fn load(published: &'static Published, models: &Path) -> Result<Self, EmbeddingError> {
        let path = published.file(models);
        let bytes = std::fs::read(&path).map_err(|source| EmbeddingError::File { path, source })?;
        // A file that was damaged or exchanged might keep the reader busy for ever.
        if package::sha256(&bytes) != published.model_sha256 {
            return Err(EmbeddingError::Model("its SHA-256 is not that of the model".into()));
        }
        // Prepared for the kernels once instead of with every question: 11 MB for four fifths of the time.
        let model = ModelOptions::with_ops(operators()).prepack_weights(true).load(bytes);
        let model = model.map_err(|error| EmbeddingError::Model(error.to_string()))?;
        let tokens = vocabulary().ok_or_else(|| EmbeddingError::Model("it has no vocabulary".into()))?;
        let threads = [(); 2].map(|()| Arc::new(ThreadPool::with_num_threads(1)));
        threads[Pace::InTheBackground as usize].run(yield_to_others);
        let mut bert = Self { published, model, tokens, center: vec![0.0; DIMENSION], threads };
        let mut center = vec![0.0; DIMENSION];
        for text in UNRELATED {
            let values = bert.values(text, Role::Memory, Pace::AtOnce)?;
            center.iter_mut().zip(values).for_each(|(sum, value)| *sum += value / UNRELATED.len() as f32);
        }
        bert.center = center;
        Ok(bert)
    }

    /// The name of the model; vectors of other models are not compared with its own.
    pub fn name(&self) -> &'static str {
        self.published.name
    }

    /// The range of its likenesses.
    pub fn scale(&self) -> Scale {
        self.published.scale
    }

    /// The direction of a text.
    pub fn embed(&self, text: &str, role: Role, pace: Pace) -> Result<Vector, EmbeddingError> {
        let mut values = self.values(text, role, pace)?;
        values.iter_mut().zip(&self.center).for_each(|(value, center)| *value -= center);
        Ok(Vector::new(&values))
    }

    /// The direction of a text as the model gives it, of length 1.
    fn values(&self, text: &str, role: Role, pace: Pace) -> Result<Vec<f32>, EmbeddingError> {
        let prefix = self.published.prefixes[role as usize];
        // First, so that a long text does not cut it off.
        let mut english = in_english(text).join(" ");
        if !english.is_empty() {
            english.push_str(". ");
        }
        let ids = self.tokens.encode(&format!("{prefix}{english}{text}"), MOST_TOKENS);
        let mut values = self.run(ids, pace).map_err(|error| EmbeddingError::Model(error.to_string()))?;
        if values.len() != DIMENSION {
            let found = values.len();
            return Err(EmbeddingError::Model(format!("it gives {found} dimensions instead of {DIMENSION}")));
        }
        let length = values.iter().map(|value| value * value).sum::<f32>().sqrt().max(f32::MIN_POSITIVE);
        values.iter_mut().for_each(|value| *value /= length);
        Ok(values)
    }

    fn run(&self, ids: Vec<i32>, pace: Pace) -> Result<Vec<f32>, Box<dyn std::error::Error>> {
        let count = ids.len();
        let ones = NdTensor::full([1, count], 1_i32);
        let zeros = NdTensor::full([1, count], 0_i32);
        let ids = NdTensor::from_data([1, count], ids);
        let mut inputs = vec![
            (self.model.node_id("input_ids")?, ids.view().into()),
            (self.model.node_id("attention_mask")?, ones.view().into()),
        ];
        if let Some(kinds) = self.model.find_node("token_type_ids") {
            inputs.push((kinds, zeros.view().into()));
        }
        let options = RunOptions::default().with_thread_pool(Some(self.threads[pace as usize].clone()));
        let [hidden] = self.model.run_n(inputs, [self.model.node_id("last_hidden_state")?], Some(options))?;
        let hidden: NdTensor<f32, 3> = hidden.try_into()?;
        // The mean over all tokens.
        let mut mean = vec![0.0; hidden.size(2)];
        for token in 0..hidden.size(1) {
            mean.iter_mut().enumerate().for_each(|(at, sum)| *sum += hidden[[0, token, at]]);
        }
        Ok(mean)
    }
}

/// Gives this thread the lowest priority. Only Linux has one for each thread; elsewhere it would be the whole process.
fn yield_to_others() {
    #[cfg(target_os = "linux")]
    let _ = rustix::process::setpriority_process(None, 19);
}

/// The operators of the published models, and those that `quantize` adds. The engine's others stay out of the program
/// (docs/decisions/020-build.md).
fn operators() -> OpRegistry {
    op_registry! {
        Add, And, Cast, Concat, Div, DynamicQuantizeLinear, Erf, Expand, Gather, GatherElements, GatherND, GreaterOrEqual, IsNaN,
        LayerNormalization, MatMul, MatMulInteger, Max, Mul, Range, Reshape, Shape, Slice, Softmax, Squeeze, Transpose,
        Unsqueeze, Where
    }
}

fn vocabulary() -> Option<WordPiece> {
    let unpacked =
        miniz_oxide::inflate::decompress_to_vec_zlib_with_limit(VOCABULARY, MOST_VOCABULARY_BYTES).ok()?;
    WordPiece::new(std::str::from_utf8(&unpacked).ok()?)
}
