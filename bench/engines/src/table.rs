//! Markdown tables on standard output.

pub fn print(title: &str, header: &[&str], rows: &[Vec<String>]) {
    println!("\n### {title}\n");
    println!("| {} |", header.join(" | "));
    println!("|{}", "---|".repeat(header.len()));
    for row in rows {
        println!("| {} |", row.join(" | "));
    }
}

/// A figure with separated thousands.
pub fn whole(figure: f64) -> String {
    let digits = format!("{figure:.0}");
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

pub fn mebibytes(bytes: u64) -> String {
    whole(bytes as f64 / f64::from(1 << 20))
}
