import type { FastifyReply, FastifyRequest } from 'fastify'
import { listRuledCommits } from '../../../branches/ruled-commits.ts'
import type { NamedUser } from '../../../domain/actors.ts'
import { BRANCHES, TAGS } from '../../../domain/ref-names.ts'
import {
  MAX_BYPASSES,
  type RefRule,
  requiredBy,
  rulesOfRef,
  validateRule,
} from '../../../domain/ref-rules.ts'
import { isTagPattern, noteOnPattern, noteOnUnchecked, refMatcher } from '../../../domain/rule-patterns.ts'
import { explainVerdict } from '../../../domain/verdict.ts'
import { ServiceError } from '../../../errors.ts'
import type { Ref, Refs } from '../../../git/refs/read-refs.ts'
import { findUnchecked } from '../../../repositories/unchecked.ts'
import type { ReadableRepository } from '../../../store/access/readable-repositories.ts'
import { reservationState } from '../../../store/repositories/reservations.ts'
import { ruleState } from '../../../store/repositories/rules.ts'
import { insteadOf, Unavailable } from '../../../util/expected-errors.ts'
import { createAdministeredFinder } from '../../finding/find-administered.ts'
import { gitClient, type RepositoryRoute } from '../../finding/find-repository.ts'
import { findUsers } from '../../forms/find-user.ts'
import { linesOf, problemOf } from '../../forms/form.ts'
import { recentContexts } from '../../forms/recent-contexts.ts'
import { sendPage } from '../../layout/layout.ts'
import type { PageContext } from '../../routing/page-context.ts'
import type { Pages } from '../../routing/pages.ts'
import { firstOf, type Query } from '../../routing/query.ts'
import { sessionOf, userOf } from '../../session/session-auth.ts'
import { subjectOf } from '../../statuses/commit-row.ts'
import { headOf, settingsPath } from '../../text/repository-paths.ts'
import { shownText, visibleText } from '../../text/text.ts'
import { createReporting, readReporters } from './reporting.ts'
import { type ChecksForms, type Preview, type RuleForm, requiredChecksView } from './required-checks-view.ts'

interface Route extends RepositoryRoute {
  Querystring: Query<'rule' | 'reserve'>
}

/** Commits of a preview. */
const PREVIEWED = 10

/** Registers `/{owner}/{repo}/settings/checks`: the rules of branches and tags, for admins. */
export async function requiredChecksPage(pages: Pages, context: PageContext): Promise<void> {
  const { store, commitLog, pageQueue, findUser } = context
  const reporting = createReporting(context)

  const send = async (
    request: FastifyRequest<Route>,
    reply: FastifyReply,
    repository: ReadableRepository,
    sent: ChecksForms,
  ): Promise<FastifyReply> => {
    // Without its files, a repository still has rules.
    const refs = await context.refs.list(repository, gitClient(request)).catch(insteadOf(Unavailable, null))
    const branches = refs?.branches ?? []
    const rules = await store.rules.load(repository.id)
    const form = sinceSeen(sent.rule, rules)
    const others = rules.filter(({ refPattern }) => refPattern !== form.refPattern)
    const matches = refMatcher(form.refPattern)
    // The preview is of the branch that the pattern names, the first that matches, or the default.
    const isNamed = ({ name }: Ref) => name === form.refPattern
    const ref =
      branches.find(isNamed) ??
      branches.find(({ name }) => matches(`${BRANCHES}${name}`)) ??
      (refs ? headOf(refs) : null)
    /** Returns what is required of a ref: other rules apply as well if this one does. */
    const requiredOf = (name: string) => {
      return requiredBy([...(matches(name) ? rulesOfRef(others, name) : []), form])
    }
    const tags = (refs?.tags ?? []).filter(({ name }) => matches(`${TAGS}${name}`))
    const history =
      ref &&
      (await commitLog
        .history(repository, { first: ref.sha }, gitClient(request))
        .catch(insteadOf(Unavailable, null)))
    const commits = history?.commits ?? []
    const lastPassed =
      ref && form.isPreview && !isTagPattern(form.refPattern)
        ? await context.branches
            .lastPassed(
              repository,
              {
                branch: `${BRANCHES}${ref.name}`,
                rules: [...others, { refPattern: form.refPattern, required: form.required, bypass: [] }],
              },
              gitClient(request),
            )
            // No rule may match the branch, or it may be gone by now.
            .catch(insteadOf(ServiceError, null))
            .catch(insteadOf(Unavailable, null))
        : null
    const newest = await listRuledCommits(context, repository, rules, gitClient(request))
    return pageQueue.render(request, async () => {
      const previewed = isTagPattern(form.refPattern)
        ? tags.map(({ name, sha }) => ({ subject: shownText(name), sha, ref: `${TAGS}${name}` }))
        : commits.map((commit) => ({
            subject: subjectOf(commit),
            sha: commit.sha,
            ref: `${BRANCHES}${ref?.name ?? ''}`,
          }))
      const preview: Preview[] = []
      for (const { ref, ...row } of form.isPreview ? previewed.slice(0, PREVIEWED) : []) {
        const contexts = await store.summaries.listStates({ repositoryId: repository.id, sha: row.sha })
        preview.push({ ...row, reason: explainVerdict(contexts, requiredOf(ref)).reason })
      }
      const content = requiredChecksView({
        session: sessionOf(request),
        repository,
        rules,
        recent: await recentContexts(store.matrix, repository.id, commits),
        branch: ref?.name ?? null,
        preview,
        lastPassed,
        note: noteOnPattern(form.refPattern, refs && fullNames(refs)),
        form,
        reporting: await reporting.read(repository, { rules, commits: newest, form: sent.reporters }),
      })
      return sendPage(reply, { title: `Required checks · ${repository.owner}/${repository.name}` }, content)
    })
  }

  pages.form('/:owner/:repo/settings/checks', {
    find: createAdministeredFinder(pages, context),
    send,

    async initial(request: FastifyRequest<Route>, repository): Promise<ChecksForms> {
      const pattern = firstOf(request.query.rule)
      const rules = await store.rules.load(repository.id)
      return {
        rule: formOfRule(rules.find(({ refPattern }) => refPattern === pattern) ?? null),
        reporters: await reporting.formOf(repository, firstOf(request.query.reserve) ?? ''),
      }
    },

    refused: (error, fields) =>
      isOfReporters(fields)
        ? { ...EMPTY, reporters: { ...readReporters(fields), error } }
        : { ...EMPTY, rule: { ...readRule(fields), error } },
    async submit({ request, form: fields, subject: repository, transact }) {
      const path = settingsPath(repository, '/checks')
      if (isOfReporters(fields)) {
        const outcome = await reporting.submit(request, repository, fields, transact)
        return 'text' in outcome
          ? { path, text: outcome.text }
          : { refused: { ...EMPTY, reporters: outcome.refused } }
      }
      const form = readRule(fields)
      if (fields.get('change') === 'remove') {
        await transact((change) => store.rules.remove(change, repository, form.refPattern, form.seen))
        return { path, text: `Removed the rule for ${form.refPattern}.` }
      }

      let bypass: NamedUser[] = []
      const bypassError = await problemOf(async () => {
        bypass = await findUsers(findUser, userOf(request).id, form.bypass, MAX_BYPASSES)
      })
      if (bypassError) return { refused: { ...EMPTY, rule: { ...form, bypassError } } }
      const rule = { refPattern: form.refPattern, required: form.required, bypass }
      if (fields.get('change') === 'preview') {
        validateRule(rule)
        return { shown: { ...EMPTY, rule: { ...form, isPreview: true } } }
      }
      await transact((change) => store.rules.set(change, repository, rule, form.seen))
      const refs = await context.refs.list(repository, gitClient(request)).catch(insteadOf(Unavailable, null))
      const notes = [
        noteOnPattern(form.refPattern, refs && fullNames(refs)),
        noteOnUnchecked(await findUnchecked(store, repository, form.refPattern)),
      ].filter((note) => note !== null)
      const text = `Saved the rule for ${form.refPattern}${notes.length > 0 ? ` (${notes.join('; ')})` : ''}.`
      return { path, text }
    },
  })
}

/** The forms before anybody has filled them in. */
const EMPTY: ChecksForms = {
  rule: formOfRule(null),
  reporters: { pattern: '', users: [], seen: reservationState(null) },
}

function formOfRule(rule: RefRule | null): RuleForm {
  return {
    refPattern: rule?.refPattern ?? '',
    required: [...(rule?.required ?? [])],
    bypass: rule?.bypass.map(({ name }) => name) ?? [],
    seen: ruleState(rule),
    isPreview: false,
  }
}

function isOfReporters(fields: URLSearchParams): boolean {
  return ['reserve', 'open'].includes(fields.get('change') ?? '')
}

/** Says in a form that was refused what the rule is by now, so that it can be replaced knowingly. */
function sinceSeen(form: RuleForm, rules: readonly RefRule[]): RuleForm {
  const rule = rules.find(({ refPattern }) => refPattern === form.refPattern) ?? null
  const seen = ruleState(rule)
  if (form.error === undefined || form.seen === seen) return form
  const now = rule
    ? `It requires ${rule.required.map(visibleText).join(', ')} now; saving again replaces it.`
    : 'There is no such rule now; saving again creates it.'
  return { ...form, seen, error: `${form.error} ${now}` }
}

function readRule(fields: URLSearchParams): RuleForm {
  return {
    refPattern: fields.get('branch') ?? '',
    required: [...new Set([...fields.getAll('context').filter(Boolean), ...linesOf(fields.get('required'))])],
    bypass: linesOf(fields.get('bypass')),
    seen: fields.get('seen') ?? '',
    isPreview: false,
  }
}

/** Returns the full names of all refs; null if there are more. */
function fullNames({ branches, tags, more }: Refs): string[] | null {
  if (more) return null
  return [...branches.map(({ name }) => `${BRANCHES}${name}`), ...tags.map(({ name }) => `${TAGS}${name}`)]
}
