import { asAdministrator } from './changes.ts'
import type { TestServer } from './server.ts'

/** The answer to a request for a page. */
export interface PageAnswer {
  status: number
  headers: Headers
  body: string
}

export interface PageRequest {
  headers?: Record<string, string>
  form?: Record<string, string>
}

/** The password of every account that `createAccount` creates. */
export const PASSWORD = 'correct horse'
/** Argon2id hash of `PASSWORD` with the lowest cost, which keeps tests fast. */
const HASH = '$argon2id$v=19$m=8,t=1,p=1$c2FsdHNhbHRzYWx0$4Smw+8uJE9vkMuQHTI8JCch07funn1w88/v1CwyXAOw'

/** Creates a user who can sign in and returns their id. */
export async function createAccount(server: Pick<TestServer, 'store'>, name: string): Promise<number> {
  const user = await asAdministrator(server.store).users.create(name, {
    passwordHash: HASH,
    ownExisting: true,
  })
  return user.id
}

/** Returns an HTTP client that keeps cookies and does not follow redirects. */
export function openPageClient(url: string) {
  const cookies = new Map<string, string>()

  async function send(
    method: string,
    path: string,
    { headers, form }: PageRequest = {},
  ): Promise<PageAnswer> {
    const response = await fetch(url + path, {
      method,
      redirect: 'manual',
      headers: { ...(cookies.size > 0 && { cookie: cookieHeader() }), ...headers },
      ...(form && { body: new URLSearchParams(form) }),
    })
    for (const line of response.headers.getSetCookie()) {
      const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(line) ?? []
      if (value === '') cookies.delete(name)
      else cookies.set(name, value)
    }
    return { status: response.status, headers: response.headers, body: await response.text() }
  }

  const cookieHeader = () => [...cookies].map(([name, value]) => `${name}=${value}`).join('; ')

  /** Submits a form with the CSRF token of its page. */
  async function submit(
    page: string,
    action: string,
    form: Record<string, string> = {},
  ): Promise<PageAnswer> {
    const { body } = await send('GET', page)
    return send('POST', action, { form: { csrf: csrfOf(body), ...form } })
  }

  return {
    cookies,
    cookieHeader,
    send,
    submit,
    get: (path: string, options?: PageRequest) => send('GET', path, options),
    /** Asks for the changes of a page, as its script does. */
    poll: (path: string, etag?: string | null) =>
      send('GET', path, { headers: { 'x-live': '1', ...(etag && { 'if-none-match': etag }) } }),
    signIn: (name: string, password = PASSWORD, next = '/') =>
      submit('/login', '/login', { name, password, next }),
  }
}

/** Returns the CSRF token of the first form of a page. */
export function csrfOf(html: string): string {
  return /name="csrf" value="([^"]+)"/.exec(html)?.[1] ?? ''
}
