import type { FastifyReply, FastifyRequest } from 'fastify'
import { requiredBy, rulesFor, validateRule } from '../../../domain/branch-rules.ts'
import { patternMatcher } from '../../../domain/patterns.ts'
import { explainVerdict } from '../../../domain/verdict.ts'
import { insteadOf, Unavailable } from '../../../errors.ts'
import type { ReadableRepository } from '../../../store/access/access.ts'
import { ruleState } from '../../../store/repositories/rules.ts'
import { linesOf, problemOf } from '../../forms/form.ts'
import { recentContexts } from '../../forms/recent-contexts.ts'
import { createAdministeredFinder, settingsPath } from '../../parts/administration.ts'
import { gitClient, type RepositoryRoute } from '../../parts/find-repository.ts'
import { sendPage } from '../../parts/layout.ts'
import type { PageContext } from '../../parts/page-context.ts'
import type { Pages } from '../../parts/pages.ts'
import { firstOf, type Query } from '../../parts/query.ts'
import { headOf } from '../../parts/ref-chooser.ts'
import { sessionOf, userOf } from '../../session/session-auth.ts'
import { type Preview, type RuleForm, requiredChecksView } from './required-checks-view.ts'

interface Route extends RepositoryRoute {
  Querystring: Query<'rule'>
}

const PATH = '/:owner/:repo/settings/checks'
/** Commits of a preview. */
const PREVIEWED = 10

/** Registers `/{owner}/{repo}/settings/checks`: the rules of branches, for admins. */
export async function requiredChecksPage(pages: Pages, context: PageContext): Promise<void> {
  const { store, commitLog, pageQueue, findUser } = context
  const find = createAdministeredFinder(pages, context)

  const send = async (
    request: FastifyRequest<Route>,
    reply: FastifyReply,
    repository: ReadableRepository,
    form: RuleForm,
  ): Promise<FastifyReply> => {
    // Without its files, a repository still has rules.
    const refs = await context.refs.list(repository, gitClient(request)).catch(insteadOf(Unavailable, null))
    const branches = refs?.branches ?? []
    const rules = await store.rules.load(repository.id)
    // The preview is of the branch that the pattern names, the first that matches, or the default.
    const matches = patternMatcher(form.branch)
    const isNamed = ({ name }: { name: string }) => name === form.branch
    const ref =
      branches.find(isNamed) ?? branches.find(({ name }) => matches(name)) ?? (refs ? headOf(refs) : null)
    // Other rules of a branch that matches apply as well.
    const name = ref?.name ?? ''
    const others = rules.filter(({ branchPattern }) => branchPattern !== form.branch && matches(name))
    const required = requiredBy([...rulesFor(others, name), form])
    const history =
      ref &&
      (await commitLog
        .history(repository, { first: ref.sha }, gitClient(request))
        .catch(insteadOf(Unavailable, null)))
    const commits = history?.commits ?? []
    return pageQueue.render(request, async () => {
      const preview: Preview[] = []
      for (const commit of form.isPreview ? commits.slice(0, PREVIEWED) : []) {
        const contexts = await store.summaries.listStates({ repositoryId: repository.id, sha: commit.sha })
        preview.push({ commit, reason: explainVerdict(contexts, required).reason })
      }
      const content = requiredChecksView({
        session: sessionOf(request),
        repository,
        rules,
        recent: await recentContexts(store.matrix, repository.id, commits),
        branch: ref?.name ?? null,
        preview,
        form,
      })
      return sendPage(reply, { title: `Required checks · ${repository.owner}/${repository.name}` }, content)
    })
  }

  pages.get<Route>(PATH, async (request, reply) => {
    const repository = await find(request, reply)
    if (!repository) return reply
    const pattern = firstOf(request.query.rule)
    const rules = await store.rules.load(repository.id)
    const rule = rules.find(({ branchPattern }) => branchPattern === pattern) ?? null
    const form: RuleForm = {
      branch: rule?.branchPattern ?? '',
      required: [...(rule?.required ?? [])],
      bypass: rule?.bypass.map(({ name }) => name) ?? [],
      seen: ruleState(rule),
      isPreview: false,
    }
    return send(request, reply, repository, form)
  })

  pages.form(PATH, {
    find,
    send,
    refused: (error, fields) => ({ ...readRule(fields), error }),
    async submit({ request, form: fields, subject: repository, transact }) {
      const form = readRule(fields)
      const path = settingsPath(repository, '/checks')
      if (fields.get('change') === 'remove') {
        await transact((change) => store.rules.remove(change, repository, form.branch, form.seen))
        return { path, text: `Removed the rule for ${form.branch}.` }
      }

      const bypass: { id: number; name: string }[] = []
      const bypassError = await problemOf(async () => {
        for (const name of form.bypass) bypass.push(await findUser(userOf(request).id, name))
      })
      if (bypassError) return { refused: { ...form, bypassError } }
      const rule = { branchPattern: form.branch, required: form.required, bypass }
      if (fields.get('change') === 'preview') {
        validateRule(rule)
        return { shown: { ...form, isPreview: true } }
      }
      await transact((change) => store.rules.set(change, repository, rule, form.seen))
      return { path, text: `Saved the rule for ${form.branch}.` }
    },
  })
}

function readRule(fields: URLSearchParams): RuleForm {
  return {
    branch: (fields.get('branch') ?? '').trim(),
    required: [...new Set([...fields.getAll('context').filter(Boolean), ...linesOf(fields.get('required'))])],
    bypass: linesOf(fields.get('bypass')),
    seen: fields.get('seen') ?? '',
    isPreview: false,
  }
}
