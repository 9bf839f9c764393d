//! Puts a model that is published with weights of four bytes into weights of one byte, in the form that `integer_graph` reads: bytes, and
//! a factor for each column of a matrix and for each row of a table. With one factor for a whole matrix e5-small lost five points of
//! its recall; with one for each column it lost none.

use std::cell::RefCell;
use std::collections::HashSet;

use rten_onnx::onnx::{DataType, GraphProto, ModelProto, TensorProto};
use rten_onnx::protobuf::ProtobufError;

use super::integer_graph::{only_needed, operation, to_number};

/// Smaller tables are left as they are.
const LARGE_TABLE: i64 = 1_000;

/// The model with its first output alone and its weights in bytes. `data` holds the tensors that the graph refers to.
pub fn quantized(model: &[u8], data: &[u8]) -> Result<Vec<u8>, ProtobufError> {
    let mut model = ModelProto::parse_buf(model)?;
    if let Some(graph) = &mut model.graph {
        graph.output.truncate(1);
        let outputs = graph.output.iter().filter_map(|output| output.name.clone()).collect();
        graph.node = only_needed(std::mem::take(&mut graph.node), outputs);
        let used: HashSet<&String> = graph.node.iter().flat_map(|node| &node.input).collect();
        graph.initializer.retain(|tensor| tensor.name.as_ref().is_some_and(|name| used.contains(name)));
        graph.initializer.iter_mut().for_each(|tensor| bring_in(tensor, data));
        quantize(graph);
    }
    model.write_buf()
}

/// Copies a tensor that lies in the other file into the graph.
fn bring_in(tensor: &mut TensorProto, data: &[u8]) {
    let number = |key: &str| -> Option<usize> {
        let entry = tensor.external_data.iter().find(|entry| entry.key.as_deref() == Some(key))?;
        entry.value.as_ref()?.parse().ok()
    };
    let Some((offset, length)) = number("offset").zip(number("length")) else { return };
    let Some(bytes) = offset.checked_add(length).and_then(|end| data.get(offset..end)) else { return };
    tensor.raw_data = Some(RefCell::new(bytes.to_vec()));
    tensor.external_data.clear();
    tensor.data_location = None;
}

fn quantize(graph: &mut GraphProto) {
    let inputs = |kind: &str, at: usize| -> HashSet<String> {
        let nodes = graph.node.iter().filter(|node| node.op_type.as_deref() == Some(kind));
        nodes.filter_map(|node| node.input.get(at).cloned()).collect()
    };
    let (matrices, tables) = (inputs("MatMul", 1), inputs("Gather", 0));
    let (mut nodes, mut tensors) = (Vec::new(), Vec::new());
    for tensor in std::mem::take(&mut graph.initializer) {
        let name = tensor.name.clone().unwrap_or_default();
        let by_column = match tensor.dims[..] {
            [_, _] if tensor.data_type != Some(DataType::FLOAT) => None,
            [_, _] if matrices.contains(&name) => Some(true),
            [rows, _] if rows > LARGE_TABLE && tables.contains(&name) => Some(false),
            _ => None,
        };
        let Some((bytes, factors)) = by_column.and_then(|by_column| in_bytes(&tensor, by_column)) else {
            tensors.push(tensor);
            continue;
        };
        let [in_bytes, with_factors, as_numbers] =
            ["bytes", "factors", "numbers"].map(|what| format!("{name} {what}"));
        nodes.push(to_number(&in_bytes, &as_numbers));
        nodes.push(operation("Mul", &[&as_numbers, &with_factors], &[&name]));
        tensors.push(TensorProto { name: Some(in_bytes), ..bytes });
        tensors.push(TensorProto { name: Some(with_factors), ..factors });
    }
    nodes.append(&mut graph.node);
    (graph.node, graph.initializer) = (nodes, tensors);
}

/// A matrix of numbers as bytes and factors; nothing if it has fewer numbers than it should.
fn in_bytes(matrix: &TensorProto, by_column: bool) -> Option<(TensorProto, TensorProto)> {
    let [rows, columns] = matrix.dims[..] else { return None };
    let (rows, columns) = (usize::try_from(rows).ok()?, usize::try_from(columns).ok()?);
    let raw = matrix.raw_data.as_ref()?.borrow();
    let (numbers, _) = raw.as_chunks::<4>();
    if numbers.len() != rows.checked_mul(columns)? {
        return None;
    }
    let group = |at: usize| if by_column { at % columns } else { at / columns };
    let mut largest = vec![0.0_f32; if by_column { columns } else { rows }];
    for (at, number) in numbers.iter().enumerate() {
        let known = &mut largest[group(at)];
        *known = known.max(f32::from_le_bytes(*number).abs());
    }
    let factors: Vec<f32> =
        largest.into_iter().map(|largest| largest.max(f32::MIN_POSITIVE) / 127.0).collect();
    let byte = |(at, number): (usize, &[u8; 4])| {
        let steps = f32::from_le_bytes(*number) / factors[group(at)];
        (steps.round() as i8).cast_unsigned()
    };
    let bytes = numbers.iter().enumerate().map(byte).collect();
    let raw_factors = factors.iter().flat_map(|factor| factor.to_le_bytes()).collect();
    let factor_dims = if by_column { vec![1, matrix.dims[1]] } else { vec![matrix.dims[0], 1] };
    Some((
        tensor(matrix.dims.clone(), DataType::INT8, bytes),
        tensor(factor_dims, DataType::FLOAT, raw_factors),
    ))
}

fn tensor(dims: Vec<i64>, kind: DataType, raw: Vec<u8>) -> TensorProto {
    TensorProto { dims, data_type: Some(kind), raw_data: Some(RefCell::new(raw)), ..TensorProto::default() }
}

#[cfg(test)]
mod tests {
    use rten::Model;
    use rten_onnx::onnx::{DataLocation, StringStringEntryProto, ValueInfoProto};
    use rten_tensor::NdTensor;
    use rten_tensor::prelude::*;

    use super::*;
    use crate::search::embedding::integer_graph;

    const ROWS: usize = 1_200;

    fn numbers(count: usize) -> Vec<u8> {
        let number = |at: usize| ((at as f32 * 0.37).sin() * (1 + at % 7) as f32).to_le_bytes();
        (0..count).flat_map(number).collect()
    }

    fn value(name: &str) -> ValueInfoProto {
        ValueInfoProto { name: Some(name.to_owned()), ..ValueInfoProto::default() }
    }

    fn apart(name: &str, dims: &[i64], offset: usize) -> TensorProto {
        let entry = |key: &str, value: usize| StringStringEntryProto {
            key: Some(key.to_owned()),
            value: Some(value.to_string()),
        };
        TensorProto {
            name: Some(name.to_owned()),
            external_data: vec![
                entry("offset", offset),
                entry("length", 4 * dims.iter().product::<i64>() as usize),
            ],
            data_location: Some(DataLocation::EXTERNAL),
            raw_data: None,
            ..tensor(dims.to_vec(), DataType::FLOAT, Vec::new())
        }
    }

    /// Looks rows up in a table, multiplies them by a matrix, and has an output that nobody needs.
    fn model(tensors: [TensorProto; 2]) -> Vec<u8> {
        let graph = GraphProto {
            node: vec![
                operation("Gather", &["table", "ids"], &["looked_up"]),
                operation("MatMul", &["looked_up", "matrix"], &["product"]),
                operation("Tanh", &["product"], &["unneeded"]),
            ],
            initializer: tensors.into(),
            input: vec![value("ids")],
            output: vec![value("product"), value("unneeded")],
            ..GraphProto::default()
        };
        ModelProto { ir_version: Some(10), graph: Some(graph), ..ModelProto::default() }.write_buf().unwrap()
    }

    fn run(model: Vec<u8>) -> Vec<f32> {
        let model = Model::load(model).unwrap();
        let ids = NdTensor::from_data([3], vec![1_i32, 700, 1_199]);
        let inputs = vec![(model.node_id("ids").unwrap(), ids.view().into())];
        let [product] = model.run_n(inputs, [model.node_id("product").unwrap()], None).unwrap();
        let product: NdTensor<f32, 2> = product.try_into().unwrap();
        product.iter().copied().collect()
    }

    #[test]
    fn weights_in_bytes_give_nearly_the_same_in_a_quarter_of_the_size() {
        let data = numbers(ROWS * 8 + 8 * 6);
        let split = ROWS * 8 * 4;
        let table = [ROWS as i64, 8];
        let whole = |name: &str, dims: &[i64], raw: &[u8]| TensorProto {
            name: Some(name.to_owned()),
            ..tensor(dims.to_vec(), DataType::FLOAT, raw.to_vec())
        };
        let exact =
            run(model([whole("table", &table, &data[..split]), whole("matrix", &[8, 6], &data[split..])]));
        let small =
            quantized(&model([apart("table", &table, 0), apart("matrix", &[8, 6], split)]), &data).unwrap();
        assert!(small.len() < data.len() / 2, "{} of {} bytes", small.len(), data.len());
        let largest = exact.iter().fold(0.0_f32, |largest, number| largest.max(number.abs()));
        for ours in [run(small.clone()), run(integer_graph::in_bytes(&small).unwrap())] {
            assert_eq!(ours.len(), exact.len());
            for (ours, exact) in ours.iter().zip(&exact) {
                assert!((ours - exact).abs() < largest / 50.0, "{ours} is not {exact}");
            }
        }
    }

    #[test]
    fn a_tensor_that_is_not_where_it_should_be_is_left_alone() {
        let graph = model([apart("table", &[4, 8], 0), apart("matrix", &[8, 6], usize::MAX - 3)]);
        assert!(quantized(&graph, &[0; 64]).is_ok());
    }
}
