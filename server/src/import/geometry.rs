//! Plane geometry for plans: hulls, curves made of corners, the order of seats along a row. Distances in source units.

/// x to the right, y downwards.
pub(super) type Xy = (f64, f64);

/// Corners an ellipse is drawn with: beyond this nobody sees the difference.
const ELLIPSE_CORNERS: u32 = 48;
/// Rows longer than this are not searched for a nearest-neighbour path, which takes quadratic time.
const MAX_CHAIN: usize = 2_000;

pub(super) fn distance(a: Xy, b: Xy) -> f64 {
    (a.0 - b.0).hypot(a.1 - b.1)
}

/// `point` turned clockwise (y is downwards) by `degrees` around the origin.
pub(super) fn turn(point: Xy, degrees: f64) -> Xy {
    let (sin, cos) = degrees.to_radians().sin_cos();
    (point.0 * cos - point.1 * sin, point.0 * sin + point.1 * cos)
}

pub(super) fn add(a: Xy, b: Xy) -> Xy {
    (a.0 + b.0, a.1 + b.1)
}

/// Corners of an ellipse turned by `degrees`.
pub(super) fn ellipse(center: Xy, radius_x: f64, radius_y: f64, degrees: f64) -> Vec<Xy> {
    (0..ELLIPSE_CORNERS)
        .map(|i| {
            let angle = f64::from(i) / f64::from(ELLIPSE_CORNERS) * std::f64::consts::TAU;
            add(center, turn((radius_x * angle.cos(), radius_y * angle.sin()), degrees))
        })
        .collect()
}

/// Corners of a rectangle around `center`, turned by `degrees`.
pub(super) fn rectangle(center: Xy, width: f64, height: f64, degrees: f64) -> Vec<Xy> {
    let (w, h) = (width / 2.0, height / 2.0);
    [(-w, -h), (w, -h), (w, h), (-w, h)].map(|corner| add(center, turn(corner, degrees))).to_vec()
}

/// Convex hull (Andrew's monotone chain), clockwise on the screen, without repeated corners.
pub(super) fn hull(points: &[Xy]) -> Vec<Xy> {
    let mut sorted = points.to_vec();
    sorted.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
    sorted.dedup();
    if sorted.len() < 3 {
        return sorted;
    }
    let cross = |o: Xy, a: Xy, b: Xy| (a.0 - o.0) * (b.1 - o.1) - (a.1 - o.1) * (b.0 - o.0);
    let half = |points: &mut dyn Iterator<Item = Xy>| {
        let mut chain: Vec<Xy> = Vec::new();
        for point in points {
            while let [.., a, b] = chain[..] {
                if cross(a, b, point) > 0.0 {
                    break;
                }
                chain.pop();
            }
            chain.push(point);
        }
        chain.pop();
        chain
    };
    let mut hull = half(&mut sorted.iter().copied());
    hull.extend(half(&mut sorted.iter().rev().copied()));
    hull
}

/// A hull around seats, `padding` away from their centres.
pub(super) fn hull_around(centers: impl Iterator<Item = Xy>, padding: f64) -> Vec<Xy> {
    // Eight directions are round enough, and small enough on the wire.
    let corners = padding * std::f64::consts::FRAC_1_SQRT_2;
    let offsets = [
        (padding, 0.0),
        (-padding, 0.0),
        (0.0, padding),
        (0.0, -padding),
        (corners, corners),
        (corners, -corners),
        (-corners, corners),
        (-corners, -corners),
    ];
    let around: Vec<Xy> = centers.flat_map(|center| offsets.map(|offset| add(center, offset))).collect();
    let mut outline = hull(&around);
    // Corners that stick out by less than a twentieth of the padding are not seen.
    let mut i = 0;
    while outline.len() > 4 && i < outline.len() {
        let (before, after) = (outline[(i + outline.len() - 1) % outline.len()], outline[(i + 1) % outline.len()]);
        if height_over(before, after, outline[i]) < padding / 20.0 {
            outline.remove(i);
        } else {
            i += 1;
        }
    }
    outline
}

fn height_over(a: Xy, b: Xy, point: Xy) -> f64 {
    let length = distance(a, b);
    if length == 0.0 {
        return distance(a, point);
    }
    ((b.0 - a.0) * (point.1 - a.1) - (b.1 - a.1) * (point.0 - a.0)).abs() / length
}

/// The middle value; `None` of nothing.
pub(super) fn median(values: &mut [f64]) -> Option<f64> {
    if values.is_empty() {
        return None;
    }
    let middle = values.len() / 2;
    Some(*values.select_nth_unstable_by(middle, f64::total_cmp).1)
}

/// The order in which one walks along a row: the given one unless another path is clearly shorter. Its direction is
/// that of the given order.
pub(super) fn order_along(points: &[Xy]) -> Vec<usize> {
    let given: Vec<usize> = (0..points.len()).collect();
    if points.len() < 3 {
        return given;
    }
    let length = |order: &[usize]| order.windows(2).map(|pair| distance(points[pair[0]], points[pair[1]])).sum::<f64>();
    let mut best = along_axis(points);
    if points.len() <= MAX_CHAIN {
        let chain = nearest_chain(points, best[0]);
        if length(&chain) < length(&best) * 0.999 {
            best = chain;
        }
    }
    if length(&best) >= length(&given) * 0.999 {
        return given;
    }
    let first_given = best.iter().position(|&i| i == 0).unwrap_or(0);
    let last_given = best.iter().position(|&i| i == points.len() - 1).unwrap_or(0);
    if first_given > last_given {
        best.reverse();
    }
    best
}

/// Sorted along the longest extent of the row.
fn along_axis(points: &[Xy]) -> Vec<usize> {
    let far = |from: Xy| {
        points.iter().copied().max_by(|a, b| distance(from, *a).total_cmp(&distance(from, *b))).unwrap_or(from)
    };
    let a = far(points[0]);
    let b = far(a);
    let axis = (b.0 - a.0, b.1 - a.1);
    let along = |i: &usize| (points[*i].0 - a.0) * axis.0 + (points[*i].1 - a.1) * axis.1;
    let mut order: Vec<usize> = (0..points.len()).collect();
    order.sort_by(|i, j| along(i).total_cmp(&along(j)));
    order
}

/// From `start` always to the nearest seat not yet visited: follows horseshoes.
fn nearest_chain(points: &[Xy], start: usize) -> Vec<usize> {
    let mut left: Vec<usize> = (0..points.len()).filter(|&i| i != start).collect();
    let mut order = vec![start];
    let mut here = points[start];
    while !left.is_empty() {
        let nearest = (0..left.len())
            .min_by(|&i, &j| distance(here, points[left[i]]).total_cmp(&distance(here, points[left[j]])))
            .unwrap_or(0);
        let next = left.swap_remove(nearest);
        here = points[next];
        order.push(next);
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hull_has_only_the_outer_corners() {
        let hull = hull(&[(0.0, 0.0), (1.0, 1.0), (2.0, 0.0), (2.0, 2.0), (0.0, 2.0), (1.0, 0.0)]);
        assert_eq!(hull, [(0.0, 0.0), (2.0, 0.0), (2.0, 2.0), (0.0, 2.0)]);
    }

    #[test]
    fn a_shuffled_row_is_walked_from_end_to_end() {
        let row: Vec<Xy> = [3, 0, 1, 4, 2].map(|i| (f64::from(i) * 0.8, f64::from(i) * 0.6)).to_vec();
        let walked: Vec<f64> = order_along(&row).iter().map(|&i| row[i].0).collect();
        let mut sorted = walked.clone();
        sorted.sort_by(f64::total_cmp);
        let reversed: Vec<f64> = sorted.iter().rev().copied().collect();
        assert!(walked == sorted || walked == reversed, "{walked:?}");
    }

    #[test]
    fn a_horseshoe_keeps_the_order_it_was_drawn_in() {
        let row: Vec<Xy> =
            (0..40).map(|i| f64::from(i) / 39.0 * 4.5).map(|a| (100.0 * a.cos(), 100.0 * a.sin())).collect();
        assert_eq!(order_along(&row), (0..40).collect::<Vec<_>>());
    }
}
