import { type DestinationStream, type Logger, pino } from 'pino'
import { redactLine } from './redact.ts'

/**
 * Creates the server's logger: JSON lines on stdout, without secrets. Every line is searched as a
 * whole, which is cheap because lines are rare, and finds secrets that a list of paths would miss.
 */
export function createLogger(level: string, destination?: DestinationStream): Logger {
  const options = { level, hooks: { streamWrite: redactLine } }
  return destination ? pino(options, destination) : pino(options)
}
