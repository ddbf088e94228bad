import { type IncomingHttpHeaders, type OutgoingHttpHeaders, request } from 'node:http'

/**
 * A request on its own connection whose headers the server has accepted and whose body is not sent
 * yet.
 */
export interface HeldRequest {
  /** Sends a part of the body. */
  send(part: string): void
  /** Sends the rest of the body. */
  finish(rest: string): Promise<HeldAnswer>
}

interface HeldAnswer {
  status: number
  headers: IncomingHttpHeaders
  body: string
}

/**
 * Sends a request's headers and waits for `100 Continue`, which the server sends when it starts to
 * read the body.
 *
 * @param length of the body in bytes
 */
export async function holdRequest(
  method: string,
  url: string,
  headers: OutgoingHttpHeaders,
  length: number,
): Promise<HeldRequest> {
  const { promise: answer, resolve, reject } = Promise.withResolvers<HeldAnswer>()
  const { promise: accepted, resolve: accept } = Promise.withResolvers<void>()
  const sent = request(url, {
    method,
    agent: false,
    headers: { ...headers, 'content-length': length, expect: '100-continue' },
  })
  sent.on('error', reject).on('continue', accept)
  sent.on('response', (response) => {
    let body = ''
    response.setEncoding('utf8').on('error', reject)
    response.on('data', (text: string) => {
      body += text
    })
    response.on('end', () => resolve({ status: response.statusCode ?? 0, headers: response.headers, body }))
  })
  answer.catch(() => {})
  sent.flushHeaders()
  const refused = answer.then(({ status }) => {
    throw new Error(`the server answered ${status} before the body was sent`)
  })
  await Promise.race([accepted, refused])
  refused.catch(() => {})
  return {
    send: (part) => sent.write(part),
    finish(rest) {
      sent.end(rest)
      return answer
    },
  }
}

/** Returns the body of a sign-in form and its headers. */
export function signInForm(
  { cookie, csrf }: { cookie: string; csrf: string },
  name: string,
  password: string,
): { headers: Record<string, string>; body: string } {
  return {
    headers: { cookie, 'content-type': 'application/x-www-form-urlencoded' },
    body: new URLSearchParams({ csrf, name, password }).toString(),
  }
}
