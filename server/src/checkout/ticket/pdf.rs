//! Tickets on paper: one A5 page each, text in a font every reader has, the QR code as filled squares. Written by hand (PDF
//! 1.4, ISO 32000), because a page of text and squares needs no library; nothing here does I/O.

use qrcode::{Color, EcLevel, QrCode};
use std::fmt::Write as _;

/// A5 in points.
const PAGE: (f64, f64) = (419.5, 595.3);
/// Space around everything.
const MARGIN: f64 = 34.0;
/// Height of the dark band with the title.
const BAND: f64 = 112.0;
/// Side of the QR code with its quiet zone: 75 mm, which a reader takes from an arm's length.
const QR_SIDE: f64 = 212.0;
/// The quiet zone that readers need, in modules.
const QUIET: usize = 4;
/// Longest line of the title, in characters, at the size it is written in; and lines of it.
const MAX_TITLE_CHARS: usize = 28;
const MAX_TITLE_LINES: usize = 2;
/// Longest line elsewhere.
const MAX_LINE_CHARS: usize = 58;
const INK: &str = "0.078 0.094 0.122";
const MUTED: &str = "0.337 0.376 0.439";
const WHITE: &str = "1 1 1";

/// What stands on one ticket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::checkout) struct Sheet {
    /// In the band at the top.
    pub(in crate::checkout) title: String,
    /// Below it, in the band: when and where.
    pub(in crate::checkout) lines: Vec<String>,
    /// The place, large: label and value, e.g. section, row and seat.
    pub(in crate::checkout) place: Vec<(String, String)>,
    /// Small, at the foot: label and value.
    pub(in crate::checkout) facts: Vec<(String, String)>,
    /// What to do with it.
    pub(in crate::checkout) hint: String,
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

/// Text of one font, size and colour.
struct Pen {
    font: &'static str,
    size: f64,
    color: &'static str,
}

fn content(sheet: &Sheet) -> Vec<u8> {
    let (width, height) = PAGE;
    let pen = |font, size, color| Pen { font, size, color };
    let mut out = format!("{INK} rg 0 {:.1} {width} {BAND} re f\n", height - BAND).into_bytes();
    let mut y = height - 40.0;
    for line in wrap(&sheet.title, MAX_TITLE_CHARS).iter().take(MAX_TITLE_LINES) {
        text(&mut out, &pen("F2", 21.0, WHITE), MARGIN, y, line);
        y -= 24.0;
    }
    for line in sheet.lines.iter().flat_map(|line| wrap(line, MAX_LINE_CHARS)) {
        text(&mut out, &pen("F1", 11.0, WHITE), MARGIN, y, &line);
        y -= 15.0;
    }
    let mut y = height - BAND - 36.0;
    // One value that is long, such as a section's name, has a line for itself; short ones stand side by side.
    let mut x = MARGIN;
    for (label, value) in &sheet.place {
        let room = width - MARGIN - x;
        let needed = (value.chars().count() as f64 * 12.5).max(label.chars().count() as f64 * 6.0) + 22.0;
        if needed > room && x > MARGIN {
            x = MARGIN;
            y -= 50.0;
        }
        text(&mut out, &pen("F1", 9.5, MUTED), x, y, label);
        let size = if needed > width - 2.0 * MARGIN { 15.0 } else { 22.0 };
        text(&mut out, &pen("F2", size, INK), x, y - 23.0, value);
        x += needed;
    }
    // Where to cut, or to fold.
    let fold = MARGIN + QR_SIDE + 62.0;
    out.extend(
        format!("{MUTED} RG 0.6 w [2 3] 0 d {MARGIN} {fold:.1} m {:.1} {fold:.1} l S [] 0 d\n", width - MARGIN)
            .into_bytes(),
    );
    qr(&mut out, &sheet.qr, MARGIN - 8.0, MARGIN + 34.0);
    text(&mut out, &pen("F3", 10.5, INK), MARGIN, MARGIN + 12.0, &sheet.code);
    let mut y = MARGIN + 34.0 + QR_SIDE - 18.0;
    let x = MARGIN + QR_SIDE + 6.0;
    for (label, value) in &sheet.facts {
        text(&mut out, &pen("F1", 9.5, MUTED), x, y, label);
        for line in wrap(value, 19).iter().take(2) {
            text(&mut out, &pen("F2", 12.0, INK), x, y - 15.0, line);
            y -= 15.0;
        }
        y -= 25.0;
    }
    let lines = wrap(&sheet.hint, 29);
    let mut y = MARGIN + 34.0 + 8.0 + 12.0 * (lines.len().saturating_sub(1)) as f64;
    for line in &lines {
        text(&mut out, &pen("F1", 9.0, MUTED), x, y, line);
        y -= 12.0;
    }
    out
}

/// The QR code as filled squares, its lower left corner here.
fn qr(out: &mut Vec<u8>, what: &str, left: f64, bottom: f64) {
    let Ok(code) = QrCode::with_error_correction_level(what, EcLevel::M) else { return };
    let modules = code.width();
    let side = QR_SIDE / (modules + 2 * QUIET) as f64;
    // In units of a module, so that what is written are small whole numbers; dark neighbours are one bar.
    let mut squares = format!("q {side:.4} 0 0 {side:.4} {left:.2} {bottom:.2} cm 0 0 0 rg\n");
    for (row, colors) in code.to_colors().chunks_exact(modules).enumerate() {
        let y = modules + QUIET - 1 - row;
        let mut x = QUIET;
        for bar in colors.chunk_by(|left, right| left == right) {
            if bar[0] == Color::Dark {
                let _ = writeln!(squares, "{x} {y} {} 1 re", bar.len());
            }
            x += bar.len();
        }
    }
    squares.push_str("f Q\n");
    out.extend(squares.into_bytes());
}

fn text(out: &mut Vec<u8>, pen: &Pen, x: f64, y: f64, line: &str) {
    let Pen { font, size, color } = pen;
    out.extend(format!("{color} rg BT /{font} {size} Tf {x:.1} {y:.1} Td (").into_bytes());
    for c in line.chars() {
        match c {
            '(' | ')' | '\\' => out.extend([b'\\', c as u8]),
            '\u{20}'..='\u{7e}' | '\u{a0}'..='\u{ff}' => out.push(c as u8),
            _ => out.push(win_ansi(c)),
        }
    }
    out.extend(b") Tj ET\n");
}

/// Letters beyond Latin-1: those the encoding has, and the plain letter of those of our neighbours' alphabets that it has not.
const fn win_ansi(c: char) -> u8 {
    match c {
        '€' => 0x80,
        '‚' => 0x82,
        '„' => 0x84,
        '…' => 0x85,
        'Š' => 0x8a,
        'Œ' => 0x8c,
        'Ž' => 0x8e,
        '‘' => 0x91,
        '’' => 0x92,
        '“' => 0x93,
        '”' => 0x94,
        '•' => 0x95,
        '–' => 0x96,
        '—' => 0x97,
        '™' => 0x99,
        'š' => 0x9a,
        'œ' => 0x9c,
        'ž' => 0x9e,
        'Ÿ' => 0x9f,
        'Ā' | 'Ă' | 'Ą' => b'A',
        'ā' | 'ă' | 'ą' => b'a',
        'Ć' | 'Č' | 'Ĉ' | 'Ċ' => b'C',
        'ć' | 'č' | 'ĉ' | 'ċ' => b'c',
        'Ď' | 'Đ' => b'D',
        'ď' | 'đ' => b'd',
        'Ē' | 'Ė' | 'Ę' | 'Ě' => b'E',
        'ē' | 'ė' | 'ę' | 'ě' => b'e',
        'Ğ' | 'Ģ' => b'G',
        'ğ' | 'ģ' => b'g',
        'Ī' | 'Į' | 'İ' => b'I',
        'ī' | 'į' | 'ı' => b'i',
        'Ķ' => b'K',
        'ķ' => b'k',
        'Ĺ' | 'Ļ' | 'Ľ' | 'Ł' => b'L',
        'ĺ' | 'ļ' | 'ľ' | 'ł' => b'l',
        'Ń' | 'Ņ' | 'Ň' => b'N',
        'ń' | 'ņ' | 'ň' => b'n',
        'Ō' | 'Ő' => b'O',
        'ō' | 'ő' => b'o',
        'Ŕ' | 'Ř' => b'R',
        'ŕ' | 'ř' => b'r',
        'Ś' | 'Ş' | 'Ș' => b'S',
        'ś' | 'ş' | 'ș' => b's',
        'Ţ' | 'Ť' | 'Ț' => b'T',
        'ţ' | 'ť' | 'ț' => b't',
        'Ū' | 'Ů' | 'Ű' | 'Ų' => b'U',
        'ū' | 'ů' | 'ű' | 'ų' => b'u',
        'Ź' | 'Ż' => b'Z',
        'ź' | 'ż' => b'z',
        // A letter this font lacks; the name stands in the order all the same.
        _ => b'?',
    }
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
            place: vec![
                ("Block".into(), "A very long name of a section that needs room".into()),
                ("Platz".into(), "12".into()),
            ],
            facts: vec![("Name".into(), "Łukasz Dvořák".into())],
            hint: "One person, once.".into(),
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
        assert!(text.contains("Block \\(A\\) \\\\ Reihe") && text.contains("Zo\u{eb} M\u{fc}ller \u{97} 20 \u{80}"));
        assert!(text.contains("Lukasz Dvor\u{e1}k"));
        // A dark square in each of the three corners at least.
        assert!(text.matches(" re\n").count() > 100);
    }
}
