import { type DestinationStream, type Logger, pino } from 'pino'
import { redactLine } from './redact.ts'

/**
 * Opens the server's log: JSON lines on standard output without secrets. Lines are rare enough to search each as a whole,
 * which no list of paths can do.
 */
export function createLogger(level: string, destination?: DestinationStream): Logger {
  const options = { level, hooks: { streamWrite: redactLine } }
  return destination ? pino(options, destination) : pino(options)
}
