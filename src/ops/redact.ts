import type { Json } from '../domain/event-details.ts'

const REDACTED = '[redacted]'
/** Names of headers, fields and variables that hold secrets. */
const SECRET_NAME =
  /^[\w-]*(?:authorization|cookie|csrf|password|password_?hash|secret|token|database_?url|connection_?string)$/i
/** Personal access tokens. */
const TOKEN = /cst_[0-9A-Za-z]+/g
const SCHEME = /\b(?:bearer|basic|token)$/i
const CREDENTIAL = /^[\w.~+/=-]{16,}/
/** The part of a URL after the user name, up to the last `@`. */
const URL_PASSWORD = /(\/\/[^/:]*:).+/s

/**
 * Removes secrets from a log line at any depth: values by name, and tokens, credentials and
 * passwords in URLs by form. Takes linear time, since a line may contain client input.
 */
export function redactLine(line: string): string {
  return `${JSON.stringify(redact(parseLine(line)))}\n`
}

/** Parses a line. Wraps a line that is not JSON, so that the log stays JSON. */
function parseLine(line: string): Json {
  try {
    // What JSON.parse returns is JSON.
    return JSON.parse(line) as Json
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error
    return { msg: line }
  }
}

function redact(value: Json): Json {
  if (typeof value === 'string') return redactText(value)
  if (typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) return value.map((entry, index) => redactNamed(value[index - 1], entry))
  const entries = Object.entries(value)
  return Object.fromEntries(entries.map(([name, held]) => [redactText(name), redactNamed(name, held)]))
}

/** @param name of the value; in a list of headers, the preceding entry */
function redactNamed(name: Json | undefined, value: Json): Json {
  const holdsSecret = typeof name === 'string' && SECRET_NAME.test(name)
  return holdsSecret && (typeof value === 'string' || Array.isArray(value)) ? REDACTED : redact(value)
}

function redactText(text: string): string {
  let afterScheme = false
  const words = text.split(/(\s)/).map((word) => {
    if (word.trim() === '') return word
    const redacted = redactWord(afterScheme ? word.replace(CREDENTIAL, REDACTED) : word)
    afterScheme = SCHEME.test(word)
    return redacted
  })
  return words.join('')
}

/** @param word text without whitespace */
function redactWord(word: string): string {
  const end = word.lastIndexOf('@')
  const url = word.slice(0, Math.max(0, end)).replace(URL_PASSWORD, `$1${REDACTED}`)
  return (url + word.slice(Math.max(0, end))).replace(TOKEN, REDACTED)
}
