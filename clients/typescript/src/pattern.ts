/**
 * Returns whether a pattern matches a whole context. `*` stands for any characters, `/` included;
 * everything else is compared exactly. Takes time proportional to the length of the context.
 */
export function matchesPattern(pattern: string, context: string): boolean {
  const [head = '', ...rest] = pattern.split('*')
  const tail = rest.pop()
  if (tail === undefined) return context === pattern
  if (context.length < head.length + tail.length) return false
  if (!context.startsWith(head) || !context.endsWith(tail)) return false
  const end = context.length - tail.length
  let from = head.length
  for (const part of rest) {
    const found = context.indexOf(part, from)
    if (found === -1 || found + part.length > end) return false
    from = found + part.length
  }
  return true
}
