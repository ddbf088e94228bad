/** CSS pixels that a target has at least, by WCAG 2.5.8. */
export const TARGET = 24

/**
 * A script that returns what can be clicked on a page and is too small: a circle around its middle
 * meets another target, or the circle around another small one.
 */
export const SMALL_TARGETS = `(() => {
  const least = ${TARGET} - 0.5 // Browsers round.
  const all = 'a[href], button, input:not([type=hidden]), select, textarea, summary'
  const isShown = (element) =>
    element.checkVisibility({ visibilityProperty: true, contentVisibilityAuto: true }) &&
    !element.closest('.sr, .skip, #docs')
  const lengthOf = (element) => element.textContent.replace(/\\s/g, '').length
  // The size of a link in a sentence is that of its line.
  const isInText = (element) => {
    if (!element.matches('a') || !getComputedStyle(element).display.startsWith('inline')) return false
    const block = element.parentElement.closest('p, li, td, th, dd, div, section, span:not(a *), h1, h2')
    return block !== null && lengthOf(block) > lengthOf(element)
  }
  const targets = [...document.querySelectorAll(all)].filter(isShown).flatMap((element) => {
    // Labels can be clicked as well.
    const boxes = [element, ...(element.labels ?? [])].filter(isShown).map((each) => each.getBoundingClientRect())
    const [left, top] = ['left', 'top'].map((side) => Math.min(...boxes.map((box) => box[side])))
    const [right, bottom] = ['right', 'bottom'].map((side) => Math.max(...boxes.map((box) => box[side])))
    const isSmall = right - left < least || bottom - top < least
    const [x, y] = [(left + right) / 2, (top + bottom) / 2]
    return right > left && bottom > top ? [{ element, left, top, right, bottom, x, y, isSmall }] : []
  })
  const meets = ({ x, y }, other) => {
    const beside = Math.max(other.left - x, 0, x - other.right)
    const above = Math.max(other.top - y, 0, y - other.bottom)
    if (Math.hypot(beside, above) < least / 2) return true
    return other.isSmall && Math.hypot(other.x - x, other.y - y) < least
  }
  const nameOf = ({ element, left, top, right, bottom }) =>
    element.tagName + '.' + element.className + ' "' + element.textContent.trim().slice(0, 30) + '" of ' +
    Math.round(right - left) + ' x ' + Math.round(bottom - top)
  const isApart = (one, other) => !one.element.contains(other.element) && !other.element.contains(one.element)
  return targets
    .filter((target) => target.isSmall && !isInText(target.element))
    .flatMap((target) => {
      const other = targets.find((each) => isApart(target, each) && meets(target, each))
      return other ? [nameOf(target) + ' beside ' + nameOf(other)] : []
    })
})()`
