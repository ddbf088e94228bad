import { type DestinationStream, type Logger, pino } from 'pino'

/**
 * The server's log: JSON lines on standard output, in which nothing secret stands, however deep it lies in what is
 * logged. Lines are rare enough to look through each as a whole, which no list of paths can be made to do.
 */
export function createLogger(level: string, destination?: DestinationStream): Logger {
  const options = { level, hooks: { streamWrite: withoutSecrets } }
  return destination ? pino(options, destination) : pino(options)
}

const NAMES =
  'authorization|cookie|set-cookie|csrf|password|password_?hash|secret|token|metrics_?token|database_?url|connection_?string'
const TEXT = String.raw`"(?:[^"\\]|\\.)*"`
/** A name of something secret, then its value or values; in a list of headers the value follows as the next entry. */
const NAMED = new RegExp(String.raw`("[\w-]*?(?:${NAMES})"[:,])(${TEXT}|\[(?:${TEXT},?)*\])`, 'gi')
/** Our tokens by their form, whatever follows the name of a scheme, and the password within a URL. */
const TOKEN = /\bcst_[0-9A-Za-z]+/g
const SCHEME = /\b(bearer|basic|token) +[\w.~+/=-]{16,}/gi
const URL_PASSWORD = /(\/\/[^\s/:@"\\]*:)[^\s@"\\]+(?=@)/g

/** The line without what opens a door. It stays valid JSON. */
function withoutSecrets(line: string): string {
  return line
    .replace(NAMED, '$1"[redacted]"')
    .replace(TOKEN, '[redacted]')
    .replace(SCHEME, '$1 [redacted]')
    .replace(URL_PASSWORD, '$1[redacted]')
}
