// Written by `npm run generate` from openapi.yaml. Do not edit.

export const schemas = {
  "Name": {
    "$id": "Name",
    "type": "string",
    "description": "Name of an owner, a user or a repository: 1 to 100 ASCII letters, digits, `-`, `_`, `.`; not `.` or `..`, and\nnot ending in `.git` or `.lock`.\n",
    "minLength": 1,
    "pattern": "^[A-Za-z0-9._-]+$",
    "x-rule": "must be ASCII letters, digits, \"-\", \"_\" and \".\", not \".\" or \"..\", and must not end in \".git\" or \".lock\"",
    "examples": [
      "acme"
    ],
    "maxLength": 100,
    "not": {
      "type": "string",
      "pattern": "^\\.\\.?$|\\.(?:[gG][iI][tT]|[lL][oO][cC][kK])$"
    }
  },
  "CommitId": {
    "$id": "CommitId",
    "type": "string",
    "description": "Full commit id.",
    "pattern": "^(?:[0-9A-Fa-f]{40}|[0-9A-Fa-f]{64})$",
    "x-rule": "must be a full commit id of 40 (SHA-1) or 64 (SHA-256) hex digits",
    "examples": [
      "2c26b46b68ffc68ff99b453c1d30413413422d70"
    ]
  },
  "State": {
    "$id": "State",
    "type": "string",
    "description": "Result of one check.",
    "enum": [
      "pending",
      "success",
      "failure",
      "error"
    ],
    "x-counts-as": {
      "pending": "pending",
      "success": "success",
      "failure": "failure",
      "error": "failure"
    }
  },
  "Context": {
    "$id": "Context",
    "type": "string",
    "description": "Name of the check.",
    "minLength": 1,
    "pattern": "^[^\\x00]*$",
    "x-well-formed": true,
    "x-rule": "must not contain U+0000 or a lone surrogate",
    "examples": [
      "ci/build"
    ],
    "maxLength": 255
  },
  "StatusReport": {
    "$id": "StatusReport",
    "type": "object",
    "description": "One report on one check.",
    "required": [
      "state"
    ],
    "dependentRequired": {
      "elapsed": [
        "run"
      ],
      "claim": [
        "run"
      ]
    },
    "properties": {
      "state": {
        "$ref": "State#"
      },
      "context": {
        "$ref": "Context#",
        "default": "default"
      },
      "description": {
        "type": "string",
        "description": "What happened.",
        "pattern": "^[^\\x00]*$",
        "x-well-formed": true,
        "x-rule": "must not contain U+0000 or a lone surrogate",
        "examples": [
          "412 tests passed"
        ],
        "maxLength": 1024
      },
      "target_url": {
        "type": "string",
        "description": "URL with details, shown as a link. An `http` or `https` URL by the WHATWG URL standard, at most 2048 bytes\nin UTF-8, without whitespace and control characters.\n",
        "format": "http-url",
        "pattern": "^[hH][tT][tT][pP][sS]?://",
        "x-max-bytes": 2048,
        "x-rule": "must be a URL that begins with http:// or https:// and contains no whitespace, control character or lone surrogate",
        "examples": [
          "https://ci.example.org/jobs/4711"
        ]
      },
      "run": {
        "type": "string",
        "description": "Tells the runs of the check apart: any text that the reports of one run have in common, and those of others do\nnot. It is not part of the status.\n",
        "minLength": 1,
        "pattern": "^[^\\x00]*$",
        "x-well-formed": true,
        "x-rule": "must not contain U+0000 or a lone surrogate",
        "examples": [
          "pipeline-4711"
        ],
        "maxLength": 128
      },
      "elapsed": {
        "type": "integer",
        "format": "int64",
        "description": "Milliseconds since the run began, measured at each attempt to send the report; 0 unless given. Requires `run`.\n",
        "minimum": 0,
        "maximum": 2592000000,
        "examples": [
          240000
        ]
      },
      "claim": {
        "type": "integer",
        "description": "Seconds for which the run claims the check: the report is stored only where no other run has the check, see\n`reportStatus`. Requires `run`.\n",
        "minimum": 10,
        "maximum": 3600,
        "examples": [
          300
        ]
      }
    }
  },
  "Status": {
    "$id": "Status",
    "type": "object",
    "description": "The result of one check on one commit.",
    "required": [
      "id",
      "sha",
      "context",
      "state",
      "description",
      "target_url",
      "created_at",
      "updated_at"
    ],
    "properties": {
      "id": {
        "type": "string",
        "description": "Identifier of the status record, a UUIDv7. A replacing report keeps it.",
        "format": "uuid"
      },
      "sha": {
        "type": "string",
        "description": "Full id of the commit, in lower case.",
        "pattern": "^(?:[0-9a-f]{40}|[0-9a-f]{64})$"
      },
      "context": {
        "$ref": "Context#"
      },
      "state": {
        "$ref": "State#"
      },
      "description": {
        "type": [
          "string",
          "null"
        ],
        "maxLength": 1024,
        "description": "As reported; `null` when none was given."
      },
      "target_url": {
        "type": [
          "string",
          "null"
        ],
        "format": "http-url",
        "pattern": "^[hH][tT][tT][pP][sS]?://",
        "x-max-bytes": 2048,
        "description": "As reported; `null` when none was given."
      },
      "created_at": {
        "$ref": "Timestamp#"
      },
      "updated_at": {
        "$ref": "Timestamp#"
      },
      "claimed_until": {
        "$ref": "Timestamp#"
      }
    },
    "additionalProperties": false
  },
  "CommitStatuses": {
    "$id": "CommitStatuses",
    "type": "object",
    "description": "All statuses of one commit and the state computed from them.",
    "required": [
      "state",
      "statuses"
    ],
    "properties": {
      "state": {
        "type": [
          "string",
          "null"
        ],
        "title": "CombinedState",
        "enum": [
          "pending",
          "success",
          "failure",
          null
        ],
        "description": "`failure` if any status is `failure` or `error`; otherwise `pending` if any is `pending`; otherwise `success`;\n`null` when there are no statuses.\n"
      },
      "statuses": {
        "type": "array",
        "description": "Ordered by the code points of `context`.",
        "items": {
          "$ref": "Status#"
        }
      }
    },
    "additionalProperties": false
  },
  "ContextPattern": {
    "$id": "ContextPattern",
    "type": "string",
    "description": "Pattern of contexts. `*` stands for any characters, `/` included; everything else matches exactly, and the whole\ncontext must match.\n",
    "minLength": 1,
    "pattern": "^[^\\x00]*$",
    "x-well-formed": true,
    "x-rule": "must not contain U+0000 or a lone surrogate",
    "examples": [
      "ci/*"
    ],
    "maxLength": 255
  },
  "ExactContext": {
    "$id": "ExactContext",
    "type": "string",
    "description": "Name of one context. It is no pattern, so it does not contain `*`.",
    "minLength": 1,
    "pattern": "^[^\\x00*]*$",
    "x-well-formed": true,
    "x-rule": "must be the exact name of a context, without \"*\", U+0000 or a lone surrogate",
    "examples": [
      "deploy/prod"
    ],
    "maxLength": 255
  },
  "Branch": {
    "$id": "Branch",
    "type": "string",
    "description": "Name of a branch, or full name of a tag.",
    "minLength": 1,
    "pattern": "^[^\\x00]*$",
    "x-well-formed": true,
    "x-rule": "must not contain U+0000 or a lone surrogate",
    "examples": [
      "main"
    ],
    "maxLength": 255
  },
  "CommitVerdict": {
    "$id": "CommitVerdict",
    "type": "object",
    "description": "Whether a commit has passed its required checks.",
    "required": [
      "verdict",
      "state",
      "required"
    ],
    "properties": {
      "verdict": {
        "type": "string",
        "description": "The verdict on the required contexts; on all contexts if no pattern is required.",
        "enum": [
          "pending",
          "success",
          "failure"
        ]
      },
      "state": {
        "type": [
          "string",
          "null"
        ],
        "title": "CombinedState",
        "enum": [
          "pending",
          "success",
          "failure",
          null
        ],
        "description": "The combined state of all contexts of the commit, required or not; `null` when there are none."
      },
      "required": {
        "type": "array",
        "description": "The required patterns, each once: those of `require` as sent, then those of rules.",
        "items": {
          "$ref": "RequiredPattern#"
        }
      }
    },
    "additionalProperties": false
  },
  "RequiredPattern": {
    "$id": "RequiredPattern",
    "type": "object",
    "description": "The state of a required pattern.",
    "required": [
      "pattern",
      "state",
      "contexts"
    ],
    "properties": {
      "pattern": {
        "$ref": "ContextPattern#"
      },
      "state": {
        "type": [
          "string",
          "null"
        ],
        "title": "CombinedState",
        "enum": [
          "pending",
          "success",
          "failure",
          null
        ],
        "description": "The combined state of the contexts that the pattern matches; `null` when it matches none."
      },
      "contexts": {
        "type": "array",
        "description": "The reported contexts that the pattern matches, ordered by code points.",
        "items": {
          "$ref": "Context#"
        }
      }
    },
    "additionalProperties": false
  },
  "StateCounts": {
    "$id": "StateCounts",
    "type": "object",
    "description": "How many statuses of a commit have which state.",
    "required": [
      "pending",
      "success",
      "failure",
      "error"
    ],
    "properties": {
      "pending": {
        "type": "integer",
        "minimum": 0
      },
      "success": {
        "type": "integer",
        "minimum": 0
      },
      "failure": {
        "type": "integer",
        "minimum": 0
      },
      "error": {
        "type": "integer",
        "minimum": 0
      }
    },
    "additionalProperties": false
  },
  "LastPassed": {
    "$id": "LastPassed",
    "type": "object",
    "description": "The last commit of a branch that passed, among those looked at.",
    "required": [
      "branch",
      "commit",
      "looked_at",
      "next"
    ],
    "properties": {
      "branch": {
        "$ref": "Branch#"
      },
      "commit": {
        "type": [
          "object",
          "null"
        ],
        "description": "The commit; `null` if none of those looked at has passed, or `unless` passes over all that have.",
        "required": [
          "sha",
          "state",
          "counts"
        ],
        "properties": {
          "sha": {
            "type": "string",
            "description": "Full id of the commit, in lower case.",
            "pattern": "^(?:[0-9a-f]{40}|[0-9a-f]{64})$"
          },
          "state": {
            "type": [
              "string",
              "null"
            ],
            "title": "CombinedState",
            "enum": [
              "pending",
              "success",
              "failure",
              null
            ],
            "description": "The combined state of all contexts of the commit, required or not."
          },
          "counts": {
            "$ref": "StateCounts#"
          }
        },
        "additionalProperties": false
      },
      "looked_at": {
        "type": "integer",
        "description": "How many commits were looked at, this one included.",
        "minimum": 0
      },
      "next": {
        "type": [
          "string",
          "null"
        ],
        "pattern": "^(?:[0-9a-f]{40}|[0-9a-f]{64})$",
        "description": "The last commit that was looked at, if `commit` is `null` and there are more: the next request's `after`.\n"
      }
    },
    "additionalProperties": false
  },
  "PassedCommit": {
    "$id": "PassedCommit",
    "type": "object",
    "description": "A commit whose required checks have passed.",
    "required": [
      "sha",
      "state",
      "counts"
    ],
    "properties": {
      "sha": {
        "type": "string",
        "description": "Full id of the commit, in lower case.",
        "pattern": "^(?:[0-9a-f]{40}|[0-9a-f]{64})$"
      },
      "state": {
        "type": [
          "string",
          "null"
        ],
        "title": "CombinedState",
        "enum": [
          "pending",
          "success",
          "failure",
          null
        ],
        "description": "The combined state of all contexts of the commit, required or not."
      },
      "counts": {
        "$ref": "StateCounts#"
      }
    },
    "additionalProperties": false
  },
  "BranchPage": {
    "$id": "BranchPage",
    "type": "object",
    "description": "A page of branches.",
    "required": [
      "branches",
      "next",
      "left_out",
      "truncated"
    ],
    "properties": {
      "branches": {
        "type": "array",
        "description": "Ordered by the code points of `name`.",
        "items": {
          "$ref": "BranchSummary#"
        }
      },
      "next": {
        "type": [
          "string",
          "null"
        ],
        "description": "The name after which the next page begins; `null` on the last page.",
        "minLength": 1,
        "pattern": "^[^\\x00]*$",
        "x-well-formed": true,
        "x-rule": "must not contain U+0000 or a lone surrogate",
        "examples": [
          "main"
        ],
        "maxLength": 255
      },
      "left_out": {
        "type": "integer",
        "description": "Number of branches on no page: names that are not UTF-8, or longer than `name` may be, cannot be sent.\n",
        "minimum": 0
      },
      "truncated": {
        "type": "boolean",
        "description": "Whether the repository has more branches than the server lists, which are the first 20,000."
      }
    },
    "additionalProperties": false
  },
  "AwaitingPage": {
    "$id": "AwaitingPage",
    "type": "object",
    "description": "A page of branches that wait for a check.",
    "required": [
      "branches",
      "next",
      "left_out",
      "truncated"
    ],
    "properties": {
      "branches": {
        "type": "array",
        "description": "Ordered by the code points of `name`.",
        "items": {
          "$ref": "AwaitingBranch#"
        }
      },
      "next": {
        "type": [
          "string",
          "null"
        ],
        "description": "The name after which the next page begins; `null` on the last page.",
        "minLength": 1,
        "pattern": "^[^\\x00]*$",
        "x-well-formed": true,
        "x-rule": "must not contain U+0000 or a lone surrogate",
        "examples": [
          "main"
        ],
        "maxLength": 255
      },
      "left_out": {
        "type": "integer",
        "description": "Number of branches that no page can contain, whether they wait or not: names that are not UTF-8, or longer than\n`name` may be, cannot be sent.\n",
        "minimum": 0
      },
      "truncated": {
        "type": "boolean",
        "description": "Whether the repository has more branches than the server lists, which are the first 20,000."
      }
    },
    "additionalProperties": false
  },
  "AwaitingBranch": {
    "$id": "AwaitingBranch",
    "type": "object",
    "description": "A branch whose newest commit has no result of the check.",
    "required": [
      "name",
      "sha",
      "state"
    ],
    "properties": {
      "name": {
        "$ref": "Branch#"
      },
      "sha": {
        "type": "string",
        "description": "Full id of the newest commit, in lower case.",
        "pattern": "^(?:[0-9a-f]{40}|[0-9a-f]{64})$"
      },
      "state": {
        "type": [
          "string",
          "null"
        ],
        "title": "AwaitedState",
        "enum": [
          "pending",
          null
        ],
        "description": "The state of the check, which is `pending`; `null` if nothing has reported it."
      }
    },
    "additionalProperties": false
  },
  "BranchSummary": {
    "$id": "BranchSummary",
    "type": "object",
    "description": "A branch, and what its newest commit has passed.",
    "required": [
      "name",
      "sha",
      "state",
      "verdict",
      "counts"
    ],
    "properties": {
      "name": {
        "$ref": "Branch#"
      },
      "sha": {
        "type": "string",
        "description": "Full id of the newest commit, in lower case.",
        "pattern": "^(?:[0-9a-f]{40}|[0-9a-f]{64})$"
      },
      "state": {
        "type": [
          "string",
          "null"
        ],
        "title": "CombinedState",
        "enum": [
          "pending",
          "success",
          "failure",
          null
        ],
        "description": "The combined state of all contexts of the commit; `null` when there are none."
      },
      "verdict": {
        "type": [
          "string",
          "null"
        ],
        "title": "Verdict",
        "enum": [
          "pending",
          "success",
          "failure",
          null
        ],
        "description": "The verdict on the contexts that rules require; `null` without a rule that matches the branch."
      },
      "counts": {
        "$ref": "StateCounts#"
      }
    },
    "additionalProperties": false
  },
  "Timestamp": {
    "$id": "Timestamp",
    "type": "string",
    "description": "UTC with whole seconds, always written `YYYY-MM-DDThh:mm:ssZ`.",
    "format": "date-time",
    "pattern": "^\\d{4}-\\d{2}-\\d{2}T\\d{2}:\\d{2}:\\d{2}Z$",
    "examples": [
      "2026-01-31T12:00:00Z"
    ]
  },
  "Error": {
    "$id": "Error",
    "type": "object",
    "description": "Every error, of every operation.",
    "required": [
      "error"
    ],
    "properties": {
      "error": {
        "type": "string",
        "description": "What is wrong and what to do, for people.",
        "minLength": 1
      }
    },
    "additionalProperties": false
  }
} as const
