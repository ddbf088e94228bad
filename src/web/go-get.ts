import type { IncomingMessage } from 'node:http'
import { isRepositoryPath } from '../domain/names.ts'
import type { ReadableRepository } from '../store/access/readable-repositories.ts'
import { type Html, html } from './text/html.ts'

/** What `go` adds to the import path of a package to ask where its module is. */
const QUERY = 'go-get=1'

/**
 * Returns the URL for which a request is routed: `go` asks at the import path of a package, which
 * may be any path below the page of a repository, so that page answers.
 */
export function routedUrl({ method, url = '' }: Pick<IncomingMessage, 'method' | 'url'>): string {
  if (method !== 'GET' || !url.endsWith(QUERY)) return url
  const [path = '', query] = url.split('?')
  const [, owner = '', repo = ''] = path.split('/')
  return query === QUERY && isRepositoryPath(owner, repo) ? `/${owner}/${repo}?${QUERY}` : url
}

/** Returns the element that tells `go` where a module is: https://go.dev/ref/mod#vcs-find */
export function goImport({ owner, name }: ReadableRepository, origin: string): Html {
  const url = `${origin}/${owner}/${name}`
  return html`<meta name="go-import" content="${url.replace(/^https?:\/\//, '')} git ${url}.git">`
}
