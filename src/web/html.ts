import { html } from 'hono/html'

export { html }

/** Escaped HTML: the result of `html`, which escapes all values except other templates. */
export type Html = ReturnType<typeof html>

/** Returns the text of a template without promises. */
export function renderText(content: Html): string {
  if (content instanceof Promise) throw new Error('a template contains a promise')
  return content.toString()
}
