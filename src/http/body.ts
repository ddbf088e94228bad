import { isUtf8 } from 'node:buffer'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { ServiceError } from '../errors.ts'
import { boundedMemoize } from '../util/memoize.ts'
import { hasBody } from './lingering-close.ts'
import { acceptBody, checkDeclaredLength, encodingOf, receiveBody, tooLarge, within } from './receive-body.ts'

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })
const PARAMETER = /;\s*([^=;\s]+)\s*=\s*("(?:[^"\\]|\\.)*"|[^;]*)/g

/**
 * Checks the headers that describe a body of at most `limit` bytes, before any of it is read.
 *
 * @throws ServiceError `body_too_large` by its declared length, then `media_type_wrong`
 */
export function checkBodyHeaders(request: IncomingMessage, limit: number): void {
  const { headers } = request
  checkDeclaredLength(headers, limit)
  if (!isJsonInUtf8(headers['content-type'] ?? '') || encodingOf(headers) !== 'identity')
    throw new ServiceError('media_type_wrong')
}

/**
 * Reads and parses a JSON body whose headers have been checked.
 *
 * @param limit largest body in bytes, counted while reading if no length was declared
 * @param timeout milliseconds until all of it must have arrived
 * @throws ServiceError `body_too_large`, `too_slow`, `malformed_request` if the client disconnects,
 * or `body_not_json` (also for a body that is empty, not UTF-8, or begins with a byte order mark)
 */
export async function readJsonBody(
  request: IncomingMessage,
  response: ServerResponse,
  limit: number,
  timeout: number,
): Promise<unknown> {
  const bytes = await readBytes(request, response, limit, timeout)
  try {
    return JSON.parse(utf8.decode(bytes))
  } catch (error) {
    throw new ServiceError('body_not_json', notJson(bytes), { cause: error })
  }
}

/**
 * Reads the fields of an HTML form.
 *
 * @param limit largest body in bytes
 * @param timeout milliseconds until all of it must have arrived
 * @throws ServiceError `body_too_large`, `media_type_wrong`, `too_slow`
 */
export async function readForm(
  request: IncomingMessage,
  response: ServerResponse,
  limit: number,
  timeout: number,
): Promise<URLSearchParams> {
  const [type = ''] = (request.headers['content-type'] ?? '').split(';', 1)
  checkDeclaredLength(request.headers, limit)
  if (type.trim().toLowerCase() !== 'application/x-www-form-urlencoded') {
    throw new ServiceError('media_type_wrong', 'Send the form as "application/x-www-form-urlencoded".')
  }
  return new URLSearchParams((await readBytes(request, response, limit, timeout)).toString('utf8'))
}

/** Reads a body to its end. Throws as `receiveBody`. */
async function readBytes(
  request: IncomingMessage,
  response: ServerResponse,
  limit: number,
  timeout: number,
): Promise<Buffer> {
  // Such a request has ended before it begins, without events.
  if (!hasBody(request)) return Buffer.alloc(0)
  // Most bodies have arrived before their caller is authorized.
  if (request.complete) {
    if (!acceptBody(request, response)) throw new ServiceError('malformed_request')
    const bytes: Buffer = request.read() ?? Buffer.alloc(0)
    if (bytes.length > limit) throw tooLarge(limit)
    return bytes
  }

  const chunks: Buffer[] = []
  const take = (chunk: Buffer) => chunks.push(chunk)
  await receiveBody(request, response, { maxBytes: limit, pace: within(timeout), take })
  return Buffer.concat(chunks)
}

/** Clients send few different values of `Content-Type`. */
const isJsonInUtf8 = boundedMemoize(100, (contentType: string): boolean => {
  const [type = ''] = contentType.split(';', 1)
  if (type.trim().toLowerCase() !== 'application/json') return false
  for (const [, name = '', value = ''] of contentType.matchAll(PARAMETER)) {
    if (name.toLowerCase() === 'charset' && !/^"?utf-8"?$/i.test(value.trim())) return false
  }
  return true
})

function notJson(bytes: Buffer): string {
  if (bytes.length === 0) return 'The body is empty; a JSON object is expected.'
  if (bytes.subarray(0, 3).equals(Buffer.of(0xef, 0xbb, 0xbf))) {
    return 'The body begins with a byte order mark, which JSON does not allow.'
  }
  return isUtf8(bytes) ? 'The body is not valid JSON.' : 'The body is not valid UTF-8.'
}
