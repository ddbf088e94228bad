import type { FastifyRequest } from 'fastify'
import { LRUCache } from 'lru-cache'
import { MAX_AGE } from '../../git/history/cached-reads.ts'
import type { RefLists } from '../../git/history/ref-lists.ts'
import type { RepositoryFiles } from '../../git/opened-repository.ts'
import type { Refs } from '../../git/refs/read-refs.ts'
import { matchesEtag } from '../../http/etag.ts'
import { numberOf } from '../../util/memoize.ts'
import { bytesOfTexts, shareOfMemory } from '../../util/memory.ts'
import { sessionOf } from '../session/session-auth.ts'
import type { PageStore } from './page-store.ts'

/** Bytes of what is remembered of all pages. */
const CACHE_BYTES = shareOfMemory(16)
/** Bytes of it that a repository takes which a page shows. */
const REPOSITORY_BYTES = 400

/** Of which files of repositories a page was made. */
export interface PageFiles {
  /** What `read` returned when the page was made. */
  version: string
  /** Returns another text once files have changed, or if only git can tell. */
  read(): Promise<string>
}

/** What an open page was made of. */
interface OpenPage {
  etag: string
  /** See `createVersions`. */
  stored: string
  reports: string
  repositoryIds: readonly number[]
  files: PageFiles
}

/** Remembers what a page was made of. @param maxAge milliseconds after which it is made anew */
type Remember = (etag: string, files: PageFiles, maxAge?: number) => void

/**
 * Answers open pages, which ask again every few seconds, from what they were:
 *
 *   who asks, and the version of the database ──▶ the same? ──▶ versions of files: the same? ──▶ 304
 *                                                  └─ no ────────┴──▶ the page is made
 *
 * Versions are read before what the page is made of, so what changes meanwhile counts as a change after
 * it. Ages are not part of an ETag, and the script computes them.
 */
export class OpenPages {
  readonly #versions: PageStore['versions']
  readonly #refs: RefLists
  /** By who asks, and for what: the least recently used ones are dropped. */
  readonly #pages = new LRUCache<string, OpenPage>({
    maxSize: CACHE_BYTES,
    // Anybody may ask by any query.
    sizeCalculation: ({ stored, reports, repositoryIds, files }, key) =>
      500 + bytesOfTexts([key, stored, reports, files.version]) + REPOSITORY_BYTES * repositoryIds.length,
    ttl: MAX_AGE,
  })
  /** The version of the database from before a page was made. */
  readonly #begun = new WeakMap<FastifyRequest, string>()

  constructor({ versions }: Pick<PageStore, 'versions'>, refs: RefLists) {
    this.#versions = versions
    this.#refs = refs
  }

  /**
   * Returns the files of a page that was made of the refs of a repository.
   *
   * @param sha the commit whose verdict it shows: other rules decide once the default branch has moved on
   *   from it
   */
  filesOf({ path }: RepositoryFiles, refs: Refs, sha: string | undefined): PageFiles {
    const versionOf = (refs: Refs) =>
      `${numberOf(refs)} ${sha !== undefined && this.#refs.movedOn({ path }, refs, sha) !== undefined}`
    const read = async () => {
      const known = await this.#refs.known({ path })
      return known ? versionOf(known) : ''
    }
    return { version: versionOf(refs), read }
  }

  /** Returns the ETag of the page that the client has, if it would get the same one; else null. */
  async unchanged(request: FastifyRequest): Promise<string | null> {
    const stored = await this.#versions.ofAll(sessionOf(request).snapshot)
    const page = this.#pages.get(keyOf(request))
    if (page && matchesEtag(request.headers['if-none-match'], page.etag)) {
      const { reports, repositoryIds, files } = page
      if (
        page.stored === stored &&
        (await this.#versions.ofReports(repositoryIds)) === reports &&
        (await files.read()) === files.version
      )
        return page.etag
    }
    this.#begun.set(request, stored)
    return null
  }

  /**
   * To be called once it is known which repositories a page shows, before their statuses are read.
   * Returns undefined if the page is not one that asks again.
   */
  async watch(
    request: FastifyRequest,
    repositories: readonly { id: number }[],
  ): Promise<Remember | undefined> {
    const stored = this.#begun.get(request)
    if (stored === undefined) return undefined
    const repositoryIds = repositories.map(({ id }) => id)
    const reports = await this.#versions.ofReports(repositoryIds)
    const key = keyOf(request)
    return (etag, files, maxAge = MAX_AGE) => {
      const ttl = Math.min(Math.floor(maxAge), MAX_AGE)
      if (ttl > 0) this.#pages.set(key, { etag, stored, reports, repositoryIds, files }, { ttl })
    }
  }
}

function keyOf(request: FastifyRequest): string {
  return [sessionOf(request).hash, request.client.origin(), request.url].join(' ')
}
