/** Returns the text, or its beginning with an ellipsis: at most `length` code points in all. */
export function truncate(text: string, length: number): string {
  if (text.length <= length) return text
  let lastPoint = 0
  let index = 0
  for (let points = 0; index < text.length; points++) {
    if (points === length) return `${text.slice(0, lastPoint)}…`
    lastPoint = index
    index += (text.codePointAt(index) ?? 0) > 0xffff ? 2 : 1
  }
  return text
}
