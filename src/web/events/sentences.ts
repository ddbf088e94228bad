import { itemsOf, type Json } from '../../domain/event-details.ts'
import { nameKey } from '../../domain/names.ts'
import type { AuditEvent, AuditLine } from '../../store/audit/audit.ts'
import { type Html, html } from '../text/html.ts'
import { shownText } from '../text/text.ts'
import { landed, landingOf } from './landings.ts'
import {
  bypassing,
  commit,
  counted,
  ending,
  listed,
  pushed,
  refName,
  refNames,
  refPattern,
  reporters,
  ruleBefore,
  word,
  words,
} from './words.ts'

/** Who reads events, and where. */
export interface EventReader {
  /** The user whom sentences call "you". */
  user?: string | undefined
  /** OWNER/NAME of the page on which it is "the repository". */
  repository?: string
}

/** An event in words. */
export interface EventSentence {
  /** Begins with who did it. Without a period. */
  sentence: Html
  /** What it was before, in the same form; null if the event does not say it. */
  before: Html | null
}

/** What follows after who did it, and what it was before. */
type Predicate = Html | { says: Html; before: Html | string | null }

/** Stored details. Other versions may have stored others, so nothing is certain but their names. */
type Stored<Details> = { readonly [Name in Details extends unknown ? keyof Details : never]?: Json }

/** The parts of which sentences about an event consist. */
interface Parts {
  /** The name of what it is about. */
  name: Html
  /** The same, but "the repository" on its own page. */
  object: Html
  /** " in OWNER/NAME", except on its own page. */
  where: Html | ''
  /** Whom it concerns. */
  subject: Html
  /** Whether that is who did it. */
  isOwn: boolean
  /** " of USER" or " of yours", whose it is; empty if it belongs to who did it. */
  owner: Html | ''
  /** " from ADDRESS", where the reader may know it. */
  from: Html | ''
  person(name: Json | undefined): Html
}

/** What each kind of event says. */
const PREDICATES: {
  [Event in AuditEvent as Event['action']]: (details: Stored<Event['details']>, parts: Parts) => Predicate
} = {
  'user.created': (_, { isOwn, name }) =>
    isOwn ? html`signed in for the first time` : html`created the user ${name}`,
  'user.locked': ({ sessions }, { subject }) => html`locked ${subject}${ending(sessions)}`,
  'user.unlocked': (_, { subject }) => html`unlocked ${subject}`,
  'user.linked': ({ issuer, sessions }, { subject }) =>
    html`linked ${subject} with an account at ${word(issuer)}${ending(sessions)}`,
  'user.unlinked': ({ issuer, sessions }, { subject }) =>
    html`unlinked ${subject} from the account at ${word(issuer)}${ending(sessions)}`,
  'user.deleted': ({ transferred_to }, { name, person }) =>
    html`deleted the user ${name}${transferred_to === undefined ? '' : html` and gave the repositories to ${person(transferred_to)}`}`,
  'password.set': ({ sessions }, { isOwn, subject }) =>
    html`set a new password${isOwn ? '' : html` for ${subject}`}${ending(sessions)}`,
  'sign-in': ({ issuer }, { from }) =>
    html`signed in${typeof issuer === 'string' ? html` with ${word(issuer)}` : ''}${from}`,
  'sign-out': () => html`signed out`,
  'session.ended': ({ sessions }, { owner }) => html`ended ${counted(sessions, 'session')}${owner}`,

  'token.created': ({ push }, { name, isOwn, subject }) =>
    html`created the token “${name}”${isOwn ? '' : html` for ${subject}`}${push === false ? ', which cannot push' : ''}`,
  'token.revoked': (_, { name, owner }) => html`revoked the token “${name}”${owner}`,
  'token.rotated': (_, { name, owner }) => html`gave the token “${name}”${owner} a new secret`,

  'group.created': (_, { name }) => html`created the group ${name}`,
  'group.deleted': (_, { name }) => html`deleted the group ${name}`,
  'group.member': ({ user, access, from }, { name, person }) => ({
    says:
      access === 'none'
        ? html`removed ${person(user)} from the group ${name}`
        : html`gave ${person(user)} ${word(access)} access to all repositories of ${name}`,
    before: from === 'none' ? 'no member' : html`${word(from)} access`,
  }),

  'repository.created': ({ visibility }, { object }) => html`created ${object} (${word(visibility)})`,
  'repository.imported': ({ visibility }, { object }) => html`imported ${object} (${word(visibility)})`,
  'repository.deleted': (_, { object }) => html`deleted ${object}`,
  'repository.reporters': ({ pattern, users, from }, { where, person }) => ({
    says:
      users === null
        ? html`let everyone with write access report ${word(pattern)}${where}`
        : html`let only ${reporters(users, person)} report ${word(pattern)}${where}`,
    before: from === null ? 'everyone with write access' : html`only ${reporters(from, person)}`,
  }),
  'repository.transferred': ({ from }, { name }) => html`moved ${word(from)} to ${name}`,
  'repository.renamed': ({ from }, { name }) => html`renamed ${word(from)} to ${name}`,
  'repository.name-released': (_, { name }) => html`released the former name ${name}`,
  'repository.visibility': ({ visibility, from }, { object }) => ({
    says: html`made ${object} ${word(visibility)}`,
    before: from === undefined ? null : word(from),
  }),
  'repository.access': ({ user, access, from }, { object, person }) => ({
    says:
      access === 'none'
        ? html`took the access to ${object} from ${person(user)}`
        : html`gave ${person(user)} ${word(access)} access to ${object}`,
    before: from === undefined ? null : from === 'none' ? 'no access' : html`${word(from)} access`,
  }),
  'repository.default-branch': ({ from, to, follows }, { object, where }) => {
    if (follows !== undefined)
      return follows === true
        ? html`let the default branch${where} follow pushes that delete it`
        : html`kept the default branch${where} also if a push deletes it`
    return {
      says:
        to === null
          ? html`left ${object} without a default branch`
          : html`made ${refName(to)} the default branch${where}`,
      before: from === undefined ? null : from === null ? 'none' : refName(from),
    }
  },

  'rule.set': ({ branches, required, bypass, from }, { where, person }) => ({
    says: html`required ${words(required)} on ${refPattern(branches)}${where}${bypassing(bypass, person)}`,
    before: from === null ? 'nobody required anything' : ruleBefore(from, person),
  }),
  'rule.removed': ({ branches, from }, { where, person }) => ({
    says: html`removed the rule for ${refPattern(branches)}${where}`,
    before: ruleBefore(from, person),
  }),
  'rule.bypassed': ({ ref, updates, reason }, { where }) =>
    html`bypassed the rule for ${updates === undefined ? refName(ref) : refNames(updates)}${where}: ${word(reason)}`,
  'status.deleted': ({ sha, context }, { where }) =>
    html`deleted the status ${word(context)} of ${commit(sha)}${where}`,
  'status.requested': ({ sha, context }, { where }) =>
    html`asked for a new run of ${word(context)} on ${commit(sha)}${where}`,
  push: ({ updates, unknown, more, interrupted, unchecked }, { where }) => {
    const unknowns = itemsOf(unknown)
    const landing = landingOf(updates, more)
    return html`${landing ? landed(landing) : pushed(itemsOf(updates), more)}${where}${[
      unknowns.length > 0 && html`; whether it moved ${refNames(unknown)} is unknown`,
      interrupted === true && '; the server did not see its end',
      itemsOf(unchecked).length > 0 &&
        html`; the rule for ${listed(itemsOf(unchecked), refPattern)} was set too late to decide about it`,
    ].map((clause) => clause || '')}`
  },

  'address.blocked': ({ failures, window }, { name }) =>
    html`failed to sign in ${counted(failures, 'time')} from ${name}, which was blocked for ${counted(window, 'second')}`,
  'address.lifted': (_, { name }) => html`lifted the block of ${name}`,
  'sign-in.refused': ({ issuer }, { from }) =>
    html`signed in at ${word(issuer)}${from}, but may not sign in here`,

  'backup.completed': ({ repositories }) => html`backed up ${counted(repositories, 'repository')}`,
  'backup.incomplete': ({ problems }) =>
    html`could not back up everything: ${counted(itemsOf(problems).length, 'problem')}`,
  'backup.restored': ({ created_at }) => html`restored the backup of ${word(created_at)}`,
  'statuses.pruned': ({ statuses, commits }) =>
    html`removed ${counted(statuses, 'status')} of ${counted(commits, 'commit')}`,
  'audit.began': () => html`began a new audit log`,
  'audit.pruned': ({ before }) => html`removed events before ${word(before)}`,
}

const predicates = new Map<string, (details: AuditLine['details'], parts: Parts) => Predicate>(
  Object.entries(PREDICATES),
)

/** Returns an event in words. That of a kind that another version records has its name. */
export function sentenceOf(event: AuditLine, reader: EventReader): EventSentence {
  const parts = partsOf(event, reader)
  // Of details that were too long, or that are damaged, nothing else is left.
  const isReadable = !('omitted' in event.details || 'unreadable' in event.details)
  const predicate = isReadable ? predicates.get(event.action)?.(event.details, parts) : undefined
  const { says, before } =
    predicate && 'says' in predicate ? predicate : { says: predicate ?? unknown(event, parts), before: null }
  return {
    sentence: html`${actorOf(event, reader)} ${says}`,
    before: before === null ? null : html`${before}`,
  }
}

function partsOf(event: AuditLine, { user, repository }: EventReader): Parts {
  const { object, actor, address } = event
  const person = (name: Json | undefined) =>
    typeof name === 'string' && name === user ? html`you` : word(name)
  const isHere = repository !== undefined && nameKey(object) === nameKey(repository)
  const isOwn = actor === 'user' && event.subject === event.user
  return {
    name: shownText(object),
    object: isHere ? html`the repository` : shownText(object),
    where: repository === undefined ? html` in ${shownText(object)}` : '',
    subject: person(event.subject),
    isOwn,
    owner: isOwn ? '' : event.subject === user ? html` of yours` : html` of ${shownText(`${event.subject}`)}`,
    from: address === null ? '' : html` from ${address}`,
    person,
  }
}

function actorOf({ actor, user, token_name }: AuditLine, reader: EventReader): Html {
  if (actor === 'administrator') return html`An administrator`
  if (actor !== 'user') return html`Someone who was not signed in`
  if (user !== null && user !== reader.user) return shownText(user)
  return token_name === null ? html`You` : html`You, with the token “${shownText(token_name)}”,`
}

function unknown({ action }: AuditLine, { object }: Parts): Html {
  return html`did <code>${action}</code> to ${object}`
}
