import { setImmediate } from 'node:timers/promises'
import type { FastifyRequest } from 'fastify'
import { listRuledCommits } from '../../../branches/ruled-commits.ts'
import type { NamedUser, SignedIn } from '../../../domain/actors.ts'
import { patternMatcher } from '../../../domain/patterns.ts'
import type { RefRule } from '../../../domain/ref-rules.ts'
import {
  isReportedBy,
  noteOnResults,
  noteOnUnable,
  type Result,
  resultsByOthers,
} from '../../../domain/reported-results.ts'
import { isOpen, MAX_USERS } from '../../../domain/reservations.ts'
import { findRemaining } from '../../../repositories/remaining.ts'
import type { ReadableRepository } from '../../../store/access/readable-repositories.ts'
import type { Transact } from '../../../store/audit/change.ts'
import { type NamedReservation, reservationState } from '../../../store/repositories/reservations.ts'
import { insteadOf, Unavailable } from '../../../util/expected-errors.ts'
import { gitClient, type RepositoryRoute } from '../../finding/find-repository.ts'
import { findUsers } from '../../forms/find-user.ts'
import { linesOf, problemOf } from '../../forms/form.ts'
import type { PageContext } from '../../routing/page-context.ts'
import { userOf } from '../../session/session-auth.ts'
import { visibleText } from '../../text/text.ts'
import type { ReportersForm, Reporting } from './reporters-view.ts'

/** Users who are offered for a check that everybody may report, and names that are looked up for all. */
const OFFERED = 5
const LOOKED_UP = 50

/**
 * Returns functions that read and set who may report, for the page of required checks.
 *
 * The newest commits may have 30,000 results. So they are read where pages take turns, and other
 * requests are served between two patterns.
 */
export function createReporting(context: PageContext) {
  const { store, pageQueue, findUser } = context

  /** Returns who reported what the patterns match, of the users that still exist. */
  async function listReporters(patterns: readonly string[], results: readonly Result[]) {
    const names = [...new Set(results.map(({ user }) => user))].filter((name) => name !== null)
    const reporters: { name: string; contexts: string[] }[] = []
    for (const name of patterns.length === 0 ? [] : names.slice(0, LOOKED_UP)) {
      const user = await store.users.find(name)
      if (!user) continue
      const own = results.filter((result) => isReportedBy(result, user))
      reporters.push({ name: user.name, contexts: [...new Set(own.map(({ context }) => context))] })
    }
    const lately = new Map<string, string[]>()
    for (const pattern of patterns) {
      await setImmediate()
      const matches = patternMatcher(pattern)
      const found = reporters.filter(({ contexts }) => contexts.some(matches))
      lately.set(pattern, found.map(({ name }) => name).slice(0, OFFERED))
    }
    return lately
  }

  /** Returns the results of each reservation's contexts that somebody else reported. */
  async function listForeign(reservations: readonly NamedReservation[], results: readonly Result[]) {
    const foreign = new Map<string, readonly Result[]>()
    for (const reservation of reservations) {
      await setImmediate()
      foreign.set(reservation.pattern, resultsByOthers(reservation, results))
    }
    return foreign
  }

  return {
    /** Returns what the page shows. To be called in the queue of pages. @param commits see `listRuledCommits` */
    async read(
      repository: ReadableRepository,
      {
        rules,
        commits,
        form,
      }: { rules: readonly RefRule[]; commits: readonly string[] | null; form: ReportersForm },
    ): Promise<Reporting> {
      const reservations = await store.reservations.list(repository.id)
      const results = await store.statuses.listResults(repository.id, commits ?? [])
      const open = new Set(
        rules.flatMap(({ required }) => required).filter((pattern) => isOpen(reservations, pattern)),
      )
      const lately = await listReporters([...open], results)
      const named = new Set(reservations.flatMap(({ users }) => users.map(({ name }) => name)))
      return {
        reservations,
        unable: await store.reservations.listUnable(repository.id, [...named]),
        commits: commits?.length ?? null,
        foreign: await listForeign(reservations, results),
        lately,
        form: isUntouched(form)
          ? { ...form, users: lately.get(form.pattern) ?? [] }
          : sinceSeen(form, reservations),
      }
    },

    /** Returns the form for a pattern: of the stored reservation, or a new one. */
    async formOf(repository: ReadableRepository, pattern: string): Promise<ReportersForm> {
      const all = pattern === '' ? [] : await store.reservations.list(repository.id)
      const reservation = all.find((each) => each.pattern === pattern) ?? null
      const users = reservation?.users.map(({ name }) => name) ?? []
      return { pattern, users, seen: reservationState(reservation) }
    },

    /** Sets what a form asks for. @returns what was done, or the form with what is wrong */
    async submit(
      request: FastifyRequest<RepositoryRoute>,
      repository: ReadableRepository,
      fields: URLSearchParams,
      transact: Transact<SignedIn>,
    ): Promise<{ text: string } | { refused: ReportersForm }> {
      const form = readReporters(fields)
      const { pattern, seen } = form
      if (fields.get('change') === 'open') {
        await transact((change) => store.reservations.set(change, repository, pattern, null, seen))
        return { text: `Everybody who may write may report ${visibleText(pattern)} again.` }
      }
      let users: NamedUser[] = []
      const usersError = await problemOf(async () => {
        users = await findUsers(findUser, userOf(request).id, form.users, MAX_USERS)
      })
      if (usersError) return { refused: { ...form, usersError } }
      await transact((change) => store.reservations.set(change, repository, pattern, users, seen))
      // What is done is done, even if nobody can say now what remains.
      const rest = await remaining(request, repository, pattern).catch(insteadOf(Unavailable, ''))
      return { text: `Reserved ${visibleText(pattern)}.${rest}` }
    },
  }

  /** Says who cannot report what was just reserved, and what stays. */
  async function remaining(
    request: FastifyRequest<RepositoryRoute>,
    repository: ReadableRepository,
    pattern: string,
  ): Promise<string> {
    const rules = await store.rules.load(repository.id)
    const commits = (await listRuledCommits(context, repository, rules, gitClient(request))) ?? []
    return pageQueue.render(request, async () => {
      const { unable, results } = await findRemaining(store, repository.id, pattern, commits)
      const note = noteOnResults(results, commits.length)
      return [
        ...unable.map((name) => ` ${noteOnUnable(name)}.`),
        ...(note === null ? [] : [` ${note}: see below.`]),
      ].join('')
    })
  }
}

/** Returns the form as it was sent. */
export function readReporters(fields: URLSearchParams): ReportersForm {
  return {
    pattern: fields.get('pattern') ?? '',
    users: linesOf(fields.get('users')),
    seen: fields.get('seen') ?? '',
  }
}

/** Says in a form that was refused who may report by now, so that it can be changed knowingly. */
function sinceSeen(form: ReportersForm, reservations: readonly NamedReservation[]): ReportersForm {
  const { pattern, error } = form
  const reservation = reservations.find((each) => each.pattern === pattern) ?? null
  const seen = reservationState(reservation)
  if (error === undefined || form.seen === seen) return form
  const who = reservation
    ? reservation.users.map(({ name }) => name).join(', ') || 'Nobody'
    : 'Everybody who may write'
  return {
    ...form,
    seen,
    error: `${error} ${who} may report ${visibleText(pattern)} now; reserving it again replaces that.`,
  }
}

/** Returns whether nobody has filled in a form for a pattern that is not reserved. */
function isUntouched({ pattern, users, seen, error }: ReportersForm): boolean {
  const isNew = pattern !== '' && users.length === 0 && seen === reservationState(null)
  return isNew && error === undefined
}
