//! Curves over time as one SVG, a panel for each.

use std::fmt::Write;

/// One panel.
pub struct Curve<'a> {
    pub title: &'a str,
    pub unit: &'a str,
    /// Seconds and values.
    pub points: Vec<(f64, f64)>,
}

const WIDTH: f64 = 860.0;
const PANEL: f64 = 150.0;
const LEFT: f64 = 70.0;
const TOP: f64 = 28.0;
const BOTTOM: f64 = 22.0;

/// Renders the panels below each other with a common time axis. Values start at zero, so that slopes are not exaggerated.
pub fn svg(curves: &[Curve<'_>]) -> String {
    let height = PANEL * curves.len() as f64;
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" font-family=\"sans-serif\" font-size=\"11\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    for (number, curve) in curves.iter().enumerate() {
        panel(&mut text, curve, PANEL * number as f64);
    }
    text + "</svg>\n"
}

fn panel(text: &mut String, curve: &Curve<'_>, top: f64) {
    let most = |value: fn(&(f64, f64)) -> f64| curve.points.iter().map(value).fold(0.0, f64::max);
    let (last, highest) = (most(|point| point.0).max(1.0), most(|point| point.1).max(f64::MIN_POSITIVE));
    let (floor, room) = (top + PANEL - BOTTOM, PANEL - TOP - BOTTOM);
    let x = |seconds: f64| LEFT + (WIDTH - LEFT - 20.0) * seconds / last;
    let y = |value: f64| floor - room * value / highest;
    let _ = writeln!(
        text,
        "<text x=\"{LEFT}\" y=\"{}\" font-weight=\"bold\">{} ({})</text>",
        top + 16.0,
        curve.title,
        curve.unit
    );
    for share in [0.0, 0.5, 1.0] {
        let value = highest * share;
        let _ = writeln!(
            text,
            "<line x1=\"{LEFT}\" x2=\"{}\" y1=\"{1:.1}\" y2=\"{1:.1}\" stroke=\"#ddd\"/>\
             <text x=\"{2}\" y=\"{3:.1}\" text-anchor=\"end\">{value:.1}</text>\
             <text x=\"{4:.1}\" y=\"{5:.1}\" text-anchor=\"middle\" fill=\"#666\">{6}</text>",
            WIDTH - 20.0,
            y(value),
            LEFT - 6.0,
            y(value) + 4.0,
            x(last * share),
            floor + 14.0,
            time(last * share),
        );
    }
    let points: Vec<String> =
        curve.points.iter().map(|(at, value)| format!("{:.1},{:.1}", x(*at), y(*value))).collect();
    let _ = writeln!(
        text,
        "<polyline points=\"{}\" fill=\"none\" stroke=\"#2563eb\" stroke-width=\"1.5\"/>",
        points.join(" ")
    );
}

fn time(seconds: f64) -> String {
    match seconds as u64 {
        0 => "0".into(),
        short @ 1..600 => format!("{short} s"),
        middle @ 600..7200 => format!("{} min", middle / 60),
        long => format!("{:.1} h", long as f64 / 3600.0),
    }
}

#[test]
fn a_curve_stays_inside_its_panel() {
    let curve = |title| Curve { title, unit: "MB", points: vec![(0.0, 3.0), (60.0, 9.0), (120.0, 6.0)] };
    let drawn = svg(&[curve("one"), curve("two")]);
    assert_eq!(drawn.matches("<polyline").count(), 2);
    let second = drawn.rsplit("points=\"").next().unwrap().split('"').next().unwrap();
    for point in second.split(' ') {
        let (x, y) = point.split_once(',').unwrap();
        let (x, y): (f64, f64) = (x.parse().unwrap(), y.parse().unwrap());
        assert!((LEFT..=WIDTH).contains(&x) && (PANEL..=2.0 * PANEL).contains(&y), "{point}");
    }
}
