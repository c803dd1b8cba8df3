//! Changes to columns, as they are written on a command line: `time:div=1000,clip=-1:1`.

use gt_data::Step;

/// A column, and what is done to its numbers.
pub(crate) type ColumnSteps = (String, Vec<Step>);

pub(crate) fn parse(text: &str) -> Result<ColumnSteps, String> {
    let (column, steps) =
        text.split_once(':').ok_or_else(|| format!("{text:?} names no column: write COLUMN:STEP[=NUMBER],…"))?;
    let steps: Result<Vec<Step>, String> = steps.split(',').map(step).collect();
    Ok((column.to_owned(), steps?))
}

fn step(text: &str) -> Result<Step, String> {
    let (name, numbers) = text.split_once('=').unwrap_or((text, ""));
    let numbers: Result<Vec<f64>, _> = numbers.split(':').filter(|n| !n.is_empty()).map(str::parse).collect();
    let numbers = numbers.map_err(|_| format!("{text:?} contains an invalid number"))?;
    Ok(match (name, &numbers[..]) {
        ("add", &[a]) => Step::Add(a),
        ("sub", &[a]) => Step::Add(-a),
        ("mul", &[a]) => Step::Mul(a),
        ("div", &[a]) => Step::Div(a),
        ("pow", &[a]) => Step::Pow(a),
        ("clip", &[a, b]) => Step::Clip(a, b),
        ("log", []) => Step::Log,
        ("log1p", []) => Step::Log1p,
        ("log10", []) => Step::Log10,
        ("exp", []) => Step::Exp,
        ("sqrt", []) => Step::Sqrt,
        ("abs", []) => Step::Abs,
        ("sin", []) => Step::Sin,
        ("cos", []) => Step::Cos,
        ("tanh", []) => Step::Tanh,
        ("floor", []) => Step::Floor,
        ("round", []) => Step::Round,
        _ => {
            return Err(format!(
                "{text:?} is not a valid step: use add=N sub=N mul=N div=N pow=N clip=LOW:HIGH log log1p log10 exp sqrt abs sin cos \
                 tanh floor or round"
            ));
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_read_as_written() {
        let (column, steps) = parse("time:sub=2,div=1000,clip=-1:1,log1p").unwrap();
        assert_eq!(column, "time");
        assert_eq!(steps, [Step::Add(-2.0), Step::Div(1000.0), Step::Clip(-1.0, 1.0), Step::Log1p]);
        for wrong in ["time", "time:", "time:add", "time:clip=1", "time:log=2", "time:add=x", "time:nothing"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
