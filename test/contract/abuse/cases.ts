import { gzipSync } from 'node:zlib'

/** A malformed or hostile request, and the allowed answers. */
export interface AbuseCase {
  name: string
  /** Bytes to send on one connection. */
  parts: (string | Uint8Array)[]
  /**
   * Allowed status codes of each answer, in order. If empty, the connection may be closed without
   * an answer.
   */
  expected: number[][]
  /** Whether the client closes its side after the last byte. */
  halfClose?: boolean
  /** Whether the server must close the connection after the last answer. */
  closes?: boolean
}

/** Operations to attack, on a commit that must not get a status. */
export interface Target {
  host: string
  /** Path of an operation with a body. */
  path: string
  /** Path of an operation without a body. */
  readPath: string
  token: string
  /** Largest body in bytes. */
  limit: number
  /** The shortest valid body, in JSON. */
  good: string
}

type Headers = readonly string[]

/** Returns a POST request with the usual headers, followed by `headers`. */
export function post(
  target: Target,
  headers: Headers,
  body: string | Uint8Array = '',
  path = target.path,
): Uint8Array {
  const lines = [
    `POST ${path} HTTP/1.1`,
    `Host: ${target.host}`,
    `Authorization: Bearer ${target.token}`,
    ...headers,
  ]
  return Buffer.concat([Buffer.from(`${lines.join('\r\n')}\r\n\r\n`, 'latin1'), Buffer.from(body)])
}

export function get(target: Target, headers: Headers = [], path = target.readPath): string {
  const lines = [
    `GET ${path} HTTP/1.1`,
    `Host: ${target.host}`,
    `Authorization: Bearer ${target.token}`,
    ...headers,
  ]
  return `${lines.join('\r\n')}\r\n\r\n`
}

/** Returns a POST request with a JSON body and its length. */
function json(target: Target, body: string | Uint8Array, headers: Headers = []): Uint8Array {
  const length = Buffer.from(body).length
  return post(target, ['Content-Type: application/json', `Content-Length: ${length}`, ...headers], body)
}

/** Returns a POST request with a chunked JSON body. */
function chunked(
  target: Target,
  chunks: readonly (string | Uint8Array)[],
  headers: Headers = [],
): Uint8Array {
  const framed = chunks.flatMap((chunk) => {
    const bytes = Buffer.from(chunk)
    return [Buffer.from(`${bytes.length.toString(16)}\r\n`), bytes, Buffer.from('\r\n')]
  })
  const body = Buffer.concat([...framed, Buffer.from('0\r\n\r\n')])
  return post(target, ['Content-Type: application/json', 'Transfer-Encoding: chunked', ...headers], body)
}

function one(name: string, part: string | Uint8Array, ...statuses: number[]): AbuseCase {
  return { name, parts: [part], expected: [statuses] }
}

/** Returns requests with wrong or ambiguous framing, and attempts at request smuggling. */
export function framing(target: Target): AbuseCase[] {
  const { host, path, readPath, good, token } = target
  const length = `Content-Length: ${Buffer.byteLength(good)}`
  const type = 'Content-Type: application/json'
  const bad = post(target, [type, 'Content-Length: 5'], '{"a":')
  return [
    one('two lengths that differ', post(target, [type, length, 'Content-Length: 3'], good), 400),
    one('a list of lengths', post(target, [type, 'Content-Length: 3, 4'], good), 400),
    one('a negative length', post(target, [type, 'Content-Length: -1'], good), 400),
    one('a length that is no number', post(target, [type, 'Content-Length: 0x10'], good), 400),
    one(
      'a length beyond all numbers',
      post(target, [type, 'Content-Length: 99999999999999999999'], good),
      400,
    ),
    one('length and chunks', post(target, [type, length, 'Transfer-Encoding: chunked'], '0\r\n\r\n'), 400),
    one('chunks and length', post(target, [type, 'Transfer-Encoding: chunked', length], '0\r\n\r\n'), 400),
    one('an unknown transfer encoding', post(target, [type, 'Transfer-Encoding: gzip'], good), 400),
    one('chunked twice', post(target, [type, 'Transfer-Encoding: chunked, chunked'], '0\r\n\r\n'), 400),
    one(
      'a transfer encoding in disguise',
      post(target, [type, length, 'Transfer-Encoding : chunked'], good),
      400,
    ),
    one(
      'a chunk without a size',
      post(target, [type, 'Transfer-Encoding: chunked'], 'zz\r\n{}\r\n0\r\n\r\n'),
      400,
    ),
    one(
      'a chunk longer than its size',
      post(target, [type, 'Transfer-Encoding: chunked'], '1\r\n{}\r\n0\r\n\r\n'),
      400,
    ),
    one('a bare line feed', `GET ${readPath} HTTP/1.1\nHost: ${host}\n\n`, 400),
    one('a bare carriage return', `GET ${readPath} HTTP/1.1\r\nHost: ${host}\rX: y\r\n\r\n`, 400),
    one('a folded header', `GET ${readPath} HTTP/1.1\r\nHost: ${host}\r\nX: a\r\n b\r\n\r\n`, 400, 401, 200),
    one('a NUL in a header', `GET ${readPath} HTTP/1.1\r\nHost: ${host}\r\nX: a\0b\r\n\r\n`, 400),
    one('a header without a name', `GET ${readPath} HTTP/1.1\r\nHost: ${host}\r\n: x\r\n\r\n`, 400),
    one('no Host', `GET ${readPath} HTTP/1.1\r\n\r\n`, 400),
    one('two Hosts', `GET ${readPath} HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n`, 400),
    one('a 20 KB header', get(target, [`X-Long: ${'x'.repeat(20_000)}`]), 431),
    one(
      '20 KB of headers',
      get(
        target,
        Array.from({ length: 1000 }, (_, i) => `X-${i}: ${'y'.repeat(14)}`),
      ),
      431,
    ),
    one('a 20 KB path', get(target, [], `/${'x'.repeat(20_000)}`), 431),
    one('an unknown method', `BREW ${path} HTTP/1.1\r\nHost: ${host}\r\n\r\n`, 400, 405),
    one('a method in lower case', `get ${readPath} HTTP/1.1\r\nHost: ${host}\r\n\r\n`, 400, 405),
    one('no version', `GET ${readPath}\r\n\r\n`, 400),
    one('version 9.9', `GET ${readPath} HTTP/9.9\r\nHost: ${host}\r\n\r\n`, 400),
    one('the preface of HTTP/2', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', 400),
    one('a TLS greeting', Buffer.from('16030100a5010000a10303', 'hex'), 400),
    one('nothing but noise', Buffer.from([0, 255, 1, 254, 13, 10, 13, 10]), 400),
    one('an unknown expectation', json(target, good, ['Expect: the-unexpected']), 417),
    one('two credentials', get(target, [`Authorization: Bearer ${token}`]), 401),
    {
      name: 'CONNECT',
      parts: [`CONNECT ${host} HTTP/1.1\r\nHost: ${host}\r\n\r\n`],
      expected: [],
    },
    {
      name: 'a body cut short by the client',
      parts: [post(target, [type, 'Content-Length: 500'], '{"state":')],
      expected: [[400]],
      halfClose: true,
      closes: true,
    },
    {
      name: 'chunks cut short by the client',
      parts: [post(target, [type, 'Transfer-Encoding: chunked'], '9\r\n{"state":\r\n')],
      expected: [[400]],
      halfClose: true,
      closes: true,
    },
    {
      name: 'headers cut short by the client',
      parts: [`GET ${readPath} HTTP/1.1\r\nHost: ${host}\r\nX-`],
      expected: [[400]],
      halfClose: true,
      closes: true,
    },
    {
      name: 'a good request, a bad body and a good one, pipelined',
      parts: [get(target), bad, get(target)],
      expected: [[200], [400], [200]],
    },
    {
      name: 'a refused body of 64 KiB does not end the connection',
      parts: [json(target, ' '.repeat(64 * 1024)), get(target)],
      expected: [[413], [200]],
    },
    {
      name: 'a refused body above 64 KiB does, and its answer arrives',
      parts: [post(target, [type, `Content-Length: ${64 * 1024 + 1}`], ' '.repeat(1_000))],
      expected: [[413]],
      closes: true,
    },
    {
      name: 'ten megabytes that are not read',
      parts: [json(target, Buffer.alloc(10 * 1024 * 1024, 0x20))],
      expected: [[413]],
      closes: true,
    },
    {
      name: 'a request after a malformed one is ignored',
      parts: [get(target), 'GET / HTTP/1.1\r\nHost : x\r\n\r\n', get(target)],
      expected: [[200], [400]],
      closes: true,
    },
    {
      name: 'a chunked body over the limit',
      parts: [
        post(target, [type, 'Transfer-Encoding: chunked'], `${target.limit.toString(16)}\r\n`),
        `${'x'.repeat(target.limit)}\r\n1\r\nx\r\n`,
      ],
      expected: [[413]],
      closes: true,
    },
    {
      name: 'one byte at a time',
      parts: [...get(target)].map((character) => Buffer.from(character)),
      expected: [[200]],
    },
  ]
}

/** Returns bodies and headers of bodies. */
export function bodies(target: Target): AbuseCase[] {
  const { good, limit } = target
  const nested = '['.repeat(8_000) + ']'.repeat(8_000)
  const type = (value: string, ...statuses: number[]) =>
    one(
      `Content-Type: ${JSON.stringify(value)}`,
      post(target, [`Content-Type:${value}`, 'Content-Length: 2'], '{}'),
      ...statuses,
    )
  return [
    one('one byte too many', json(target, good.padStart(limit + 1)), 413),
    one('one byte too many, in chunks', chunked(target, [good, ' '.repeat(limit + 1 - good.length)]), 413),
    one('exactly the limit', json(target, '{}'.padStart(limit)), 422),
    one('exactly the limit, in chunks', chunked(target, ['{}', ' '.repeat(limit - 2)]), 422),
    one('the limit in one-byte chunks', chunked(target, [...'{}'.padStart(2_000)]), 422),
    one('too long and of the wrong type', post(target, ['Content-Length: 20000'], ' '.repeat(20_000)), 413),
    one('gzip', json(target, gzipSync(good), ['Content-Encoding: gzip']), 415),
    one('gzip without Content-Encoding', json(target, gzipSync(good)), 400),
    one('identity', json(target, '{}', ['Content-Encoding: identity']), 422),
    one('an unknown encoding', json(target, good, ['Content-Encoding: x']), 415),
    one('no type', post(target, [`Content-Length: ${good.length}`], good), 415),
    one('no type, no body', post(target, ['Content-Length: 0']), 415),
    one('no length', post(target, ['Content-Type: application/json']), 400),
    type(' application/json', 422),
    type('\tapplication/json', 422),
    type('   application/json  ', 422),
    type(' APPLICATION/JSON', 422),
    type(' application/json;', 422),
    type(' application/json;,', 415, 422),
    type(' application/json ; charset=utf-8', 422),
    type(' application/json;charset="UTF-8"', 422),
    type(' application/json\t;charset=utf-8', 422),
    type(' application/json; charset=utf-8; profile=x', 422),
    type(' application/json; charset=latin1', 415),
    type(' application/json; charset=utf-16', 415),
    type(' application/json; x="; charset=latin1"', 422),
    type(' application/json, application/json', 415),
    type(' application/json, text/plain', 415),
    type(' application/jsonp', 415),
    type(' application/problem+json', 415),
    type(' application/json/x', 415),
    type(' application', 415),
    type(' text/plain', 415),
    type(' application/x-www-form-urlencoded', 415),
    type(' multipart/form-data; boundary=x', 415),
    type(' ;', 415),
    type('', 415),
    one('an empty body', json(target, ''), 400),
    one('white space', json(target, ' \r\n\t '), 400),
    one('a byte order mark', json(target, `\ufeff${good}`), 400),
    one('UTF-16', json(target, Buffer.from(good, 'utf16le')), 400),
    one('invalid UTF-8', json(target, Buffer.from('{"state":"\xff"}', 'latin1')), 400),
    one('an encoded surrogate', json(target, Buffer.from('{"state":"\xed\xa0\x80"}', 'latin1')), 400),
    one('an overlong NUL', json(target, Buffer.from('{"state":"\xc0\x80"}', 'latin1')), 400),
    one('a lone surrogate', json(target, '{"state":"success","context":"\\ud800"}'), 422),
    one('a pair in the wrong order', json(target, '{"state":"success","context":"\\udc00\\ud800"}'), 422),
    one('NUL', json(target, '{"state":"success","context":"\\u0000"}'), 422),
    one('a raw control character', json(target, '{"state":"suc\u0001cess"}'), 400),
    one('8,000 deep', json(target, nested), 422),
    one('8,000 deep in a field', json(target, `{"state":${'['.repeat(8_000)}${']'.repeat(8_000)}}`), 422),
    one('8,000 deep and never closed', json(target, '['.repeat(16_000)), 400),
    one('deep objects', json(target, `${'{"a":'.repeat(2_500)}1${'}'.repeat(2_500)}`), 422),
    one('__proto__', json(target, '{"__proto__":{"state":"success"}}'), 422),
    one('constructor', json(target, '{"constructor":{"prototype":{"state":"success"}}}'), 422),
    one('a repeated key, the last one wrong', json(target, '{"state":"success","state":"no"}'), 422),
    one('1e999', json(target, '{"state":1e999}'), 422),
    one('a number of 16,000 digits', json(target, `{"state":${'9'.repeat(16_000)}}`), 422),
    one('-0', json(target, '{"state":-0}'), 422),
    one('two documents', json(target, `${good}${good}`), 400),
    one('a comment', json(target, `${good}//`), 400),
    one('an array of reports', json(target, `[${good}]`), 422),
    one('text', json(target, JSON.stringify(good)), 422),
    ...['null', 'true', '0', '""', '[]', '{}'].map((text) => one(`just ${text}`, json(target, text), 422)),
  ]
}

/** Returns paths that name no repository or no operation. */
export function paths(target: Target): AbuseCase[] {
  const template = target.readPath
  const [, base = '', owner = '', repo = '', sha = ''] =
    /^(.*\/repos)\/([^/]+)\/([^/]+)\/commits\/([^/]+)\/statuses$/.exec(template) ?? []
  const path = (name: string, end = `commits/${sha}/statuses`) => `${base}/${name}/${end}`
  const named = [
    '%2F',
    'a%2Fb',
    '%2e%2e',
    '%2e',
    '..',
    '.',
    '%00',
    'a%00b',
    '%252F',
    '%25',
    'é',
    '%C3%A9',
    '%F0%9F%98%80',
  ]
  const names = [
    ...named,
    'x'.repeat(10_000),
    '%41'.repeat(3_000),
    'a'.repeat(101),
    'x.git',
    'a b'.replace(' ', '%20'),
    '~',
    '%0d%0aX:%20y',
    '%7f',
    'api',
    "'--",
    '*',
    '$(id)',
    ';',
    'a;b',
    '%3Cscript%3E',
  ]
  const missing = names.flatMap((name) => {
    const raw = /[\x80-\uffff]/.test(name)
    const statuses = raw ? [400] : [404]
    return [
      one(`owner ${name.slice(0, 20)}`, Buffer.from(get(target, [], path(`${name}/${repo}`))), ...statuses),
      one(
        `repository ${name.slice(0, 20)}`,
        Buffer.from(get(target, [], path(`${owner}/${name}`))),
        ...statuses,
      ),
    ]
  })
  const malformed = ['%zz', '%', '%2', '%ff', '%c3', '%ED%A0%80', '%C0%AF', '%u0041'].flatMap((name) => [
    one(`owner ${name}`, get(target, [], path(`${name}/${repo}`)), 400),
    one(`repository ${name}`, get(target, [], path(`${owner}/${name}`)), 400),
    one(`commit ${name}`, get(target, [], path(`${owner}/${repo}`, `commits/${name}/statuses`)), 400),
    one(`unknown path ${name}`, get(target, [], `/${name}`), 400),
    one(`query ${name}`, get(target, [], `${template}?x=${name}`), 400),
    one(`name in a query ${name}`, get(target, [], `${template}?${name}`), 400),
    one(`fragment ${name}`, get(target, [], `/x#${name}`), 400),
  ])
  const known = `${owner}/${repo}`
  return [
    ...missing,
    ...malformed,
    one('an empty owner', get(target, [], path(`/${repo}`)), 404),
    one('an empty repository', get(target, [], path(`${owner}/`)), 404),
    one('a trailing slash', get(target, [], `${template}/`), 404),
    one('a doubled slash', get(target, [], template.replace('/commits', '//commits')), 404),
    one('another case', get(target, [], template.replace('/commits', '/Commits')), 404),
    one('a path with ..', get(target, [], template.replace('/commits', '/../commits')), 404),
    one('an encoded slash at the end', get(target, [], `${template}%2F`), 404),
    one('a wrong method', get(target, [], target.path), 405),
    ...['DELETE', 'PUT', 'PATCH', 'OPTIONS', 'TRACE', 'PROPFIND'].map((method) =>
      one(method, get(target, [], template).replace('GET', method), 405),
    ),
    one('an asterisk', get(target, [], '*'), 400),
    one('an unknown path', get(target, [], '/api/v1/nothing'), 404),
    one(
      'an unknown path with a bad token',
      `GET /api/v1/x HTTP/1.1\r\nHost: x\r\nAuthorization: no\r\n\r\n`,
      404,
    ),
    one('the whole URL', get(target, [], `http://${target.host}${template}`), 200),
    one('a query', get(target, [], `${template}?x=%c3%a9&__proto__=1&a[b]=c`), 200),
    one('a fragment', get(target, [], `${template}#x`), 400),
    one('a commit in 10 KB', get(target, [], path(known, `commits/${'a'.repeat(10_000)}/statuses`)), 422),
    one('a commit that is ..', get(target, [], path(known, 'commits/../statuses')), 422),
    one('a commit that is an option', get(target, [], path(known, 'commits/--help/statuses')), 422),
  ]
}
