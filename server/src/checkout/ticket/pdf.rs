//! Tickets on paper: one A5 page each, text in a font every reader has, the QR code as filled squares. Written by hand (PDF
//! 1.4, ISO 32000), because a page of text and squares needs no library; nothing here does I/O.

use qrcode::{Color, EcLevel, QrCode};
use std::fmt::Write as _;

/// A5 in points.
const PAGE: (f64, f64) = (419.5, 595.3);
/// Space around everything.
const MARGIN: f64 = 36.0;
/// Side of the QR code with its quiet zone.
const QR_SIDE: f64 = 190.0;
/// The quiet zone that readers need, in modules.
const QUIET: usize = 4;
/// Longest line, in characters: what fits at the size it is written in.
const MAX_LINE_CHARS: usize = 48;

/// What stands on one ticket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::checkout) struct Sheet {
    /// Large, at the top.
    pub(in crate::checkout) title: String,
    /// Below it, one line each.
    pub(in crate::checkout) lines: Vec<String>,
    /// In letters, for a door whose reader fails.
    pub(in crate::checkout) code: String,
    /// In the QR code.
    pub(in crate::checkout) qr: String,
}

/// The document. A text that fits no QR code leaves its place empty; the code stands below all the same.
#[must_use]
pub(in crate::checkout) fn render(sheets: &[Sheet]) -> Vec<u8> {
    let mut document = Document::default();
    let font = "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>";
    let bold = font.replace("Helvetica", "Helvetica-Bold");
    let mono = font.replace("Helvetica", "Courier-Bold");
    // 1 catalogue, 2 pages, 3 to 5 fonts, then a page and its content for each ticket.
    let kids: Vec<String> = (0..sheets.len()).map(|at| format!("{} 0 R", 6 + 2 * at)).collect();
    document.add("<< /Type /Catalog /Pages 2 0 R >>".as_bytes());
    document.add(format!("<< /Type /Pages /Kids [{}] /Count {} >>", kids.join(" "), kids.len()).as_bytes());
    for font in [font, &bold, &mono] {
        document.add(font.as_bytes());
    }
    for (at, sheet) in sheets.iter().enumerate() {
        let (width, height) = PAGE;
        let page = format!(
            "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 {width} {height}] /Contents {} 0 R \
             /Resources << /Font << /F1 3 0 R /F2 4 0 R /F3 5 0 R >> >> >>",
            7 + 2 * at
        );
        document.add(page.as_bytes());
        let content = content(sheet);
        let mut stream = format!("<< /Length {} >>\nstream\n", content.len()).into_bytes();
        stream.extend(content);
        stream.extend(b"\nendstream");
        document.add(&stream);
    }
    document.finish()
}

fn content(sheet: &Sheet) -> Vec<u8> {
    let mut out = Vec::new();
    let mut y = PAGE.1 - MARGIN - 20.0;
    for line in wrap(&sheet.title, 26) {
        text(&mut out, "F2", 22.0, y, &line);
        y -= 27.0;
    }
    y -= 6.0;
    for line in sheet.lines.iter().flat_map(|line| wrap(line, MAX_LINE_CHARS)) {
        text(&mut out, "F1", 13.0, y, &line);
        y -= 19.0;
    }
    text(&mut out, "F3", 11.0, MARGIN, &sheet.code);
    if let Ok(code) = QrCode::with_error_correction_level(&sheet.qr, EcLevel::M) {
        let modules = code.width();
        let side = QR_SIDE / (modules + 2 * QUIET) as f64;
        let (left, bottom) = (MARGIN, MARGIN + 24.0);
        let colors = code.to_colors();
        let mut squares = String::from("0 0 0 rg\n");
        for (at, _) in colors.iter().enumerate().filter(|(_, color)| **color == Color::Dark) {
            let (column, row) = (at % modules + QUIET, at / modules + QUIET);
            let (x, y) = (left + column as f64 * side, bottom + QR_SIDE - (row + 1) as f64 * side);
            let _ = writeln!(squares, "{x:.2} {y:.2} {side:.3} {side:.3} re");
        }
        squares.push_str("f\n");
        out.extend(squares.into_bytes());
    }
    out
}

fn text(out: &mut Vec<u8>, font: &str, size: f64, y: f64, line: &str) {
    out.extend(format!("BT /{font} {size} Tf {MARGIN} {y:.1} Td (").into_bytes());
    for c in line.chars() {
        match c {
            '(' | ')' | '\\' => out.extend([b'\\', c as u8]),
            '\u{20}'..='\u{7e}' | '\u{a0}'..='\u{ff}' => out.push(c as u8),
            '\u{20ac}' => out.push(0x80),
            '\u{2013}' => out.push(0x96),
            '\u{2019}' => out.push(0x92),
            // A letter this font lacks.
            _ => out.push(b'?'),
        }
    }
    out.extend(b") Tj ET\n");
}

fn wrap(line: &str, most: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in line.split_whitespace() {
        let last = lines.last_mut().expect("one at least");
        if !last.is_empty() && last.chars().count() + 1 + word.chars().count() > most {
            lines.push(word.chars().take(most).collect());
        } else {
            if !last.is_empty() {
                last.push(' ');
            }
            last.extend(word.chars().take(most));
        }
    }
    lines
}

#[derive(Default)]
struct Document {
    bytes: Vec<u8>,
    offsets: Vec<usize>,
}

impl Document {
    fn add(&mut self, object: &[u8]) {
        if self.bytes.is_empty() {
            self.bytes.extend(b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n");
        }
        self.offsets.push(self.bytes.len());
        self.bytes.extend(format!("{} 0 obj\n", self.offsets.len()).into_bytes());
        self.bytes.extend(object);
        self.bytes.extend(b"\nendobj\n");
    }

    fn finish(mut self) -> Vec<u8> {
        let start = self.bytes.len();
        let count = self.offsets.len() + 1;
        let mut table = format!("xref\n0 {count}\n0000000000 65535 f \n");
        for offset in &self.offsets {
            let _ = writeln!(table, "{offset:010} 00000 n ");
        }
        let _ = write!(table, "trailer\n<< /Size {count} /Root 1 0 R >>\nstartxref\n{start}\n%%EOF\n");
        self.bytes.extend(table.into_bytes());
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_offset_of_the_table_leads_to_its_object() {
        let sheet = |title: &str| Sheet {
            title: title.into(),
            lines: vec!["Block (A) \\ Reihe 7, Platz 12".into(), "Zoë Müller — 20 €".into()],
            code: "ABCDEFGH".into(),
            qr: "SW1.x.y".into(),
        };
        let bytes = render(&[sheet("One"), sheet("A title much longer than one line of the page can ever be")]);
        let text: String = bytes.iter().map(|&byte| byte as char).collect();
        assert!(text.starts_with("%PDF-1.4") && text.ends_with("%%EOF\n"));
        // Offsets count bytes, and here each byte is one character.
        let at = |offset: usize| text.chars().skip(offset).collect::<String>();
        let start = text.rsplit("startxref\n").next().and_then(|rest| rest.lines().next()).expect("a start");
        let rest = at(start.parse().expect("a number"));
        let table: Vec<&str> = rest.lines().skip(3).take_while(|line| line.ends_with("n ")).collect();
        assert_eq!(table.len(), 9);
        for (number, line) in table.iter().enumerate() {
            let offset: usize = line[..10].parse().expect("an offset");
            assert!(at(offset).starts_with(&format!("{} 0 obj", number + 1)), "{line}");
        }
        assert!(text.contains("Block \\(A\\) \\\\ Reihe") && text.contains("Zo\u{eb} M\u{fc}ller ? 20 \u{80}"));
        // A dark square in each of the three corners at least.
        assert!(text.matches(" re\n").count() > 100);
    }
}
