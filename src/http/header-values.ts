/**
 * The values of a header, one for each time that it was sent: the parsed headers join them, or hide all but one.
 *
 * @param rawHeaders names and values in turn
 * @param name in lower case
 */
export function headerValues(rawHeaders: readonly string[], name: string): string[] {
  const values: string[] = []
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const sent = rawHeaders[index]
    // The length rules out nearly every header without a lower-case copy of its name.
    if (sent?.length === name.length && sent.toLowerCase() === name) values.push(rawHeaders[index + 1] ?? '')
  }
  return values
}
