// Written by `npm run generate` from openapi.yaml. Do not edit.

export const scopes = {
  "repo": "repo"
} as const
export type Scope = keyof typeof scopes

export const operations = {
  "reportStatus": {
    "method": "POST",
    "path": "/api/v1/repos/{owner}/{repo}/statuses/{sha}",
    "url": "/api/v1/repos/:owner/:repo/statuses/:sha",
    "access": "write",
    "anonymous": false,
    "schemes": [
      "bearerToken",
      "accessToken"
    ],
    "scopes": [
      "repo"
    ],
    "params": {
      "type": "object",
      "required": [
        "owner",
        "repo",
        "sha"
      ],
      "properties": {
        "owner": {
          "$ref": "Name#"
        },
        "repo": {
          "$ref": "Name#"
        },
        "sha": {
          "$ref": "CommitId#"
        }
      }
    },
    "query": null,
    "body": {
      "$ref": "StatusReport#"
    },
    "bodyLimit": 16384,
    "replies": {
      "201": {
        "$ref": "Status#"
      },
      "400": {
        "$ref": "Error#"
      },
      "401": {
        "$ref": "Error#"
      },
      "403": {
        "$ref": "Error#"
      },
      "404": {
        "$ref": "Error#"
      },
      "409": {
        "$ref": "Error#"
      },
      "413": {
        "$ref": "Error#"
      },
      "415": {
        "$ref": "Error#"
      },
      "422": {
        "$ref": "Error#"
      },
      "429": {
        "$ref": "Error#"
      },
      "503": {
        "$ref": "Error#"
      }
    },
    "headers": {}
  },
  "listStatuses": {
    "method": "GET",
    "path": "/api/v1/repos/{owner}/{repo}/commits/{sha}/statuses",
    "url": "/api/v1/repos/:owner/:repo/commits/:sha/statuses",
    "access": "read",
    "anonymous": true,
    "schemes": [
      "bearerToken",
      "accessToken"
    ],
    "scopes": [
      "repo"
    ],
    "params": {
      "type": "object",
      "required": [
        "owner",
        "repo",
        "sha"
      ],
      "properties": {
        "owner": {
          "$ref": "Name#"
        },
        "repo": {
          "$ref": "Name#"
        },
        "sha": {
          "$ref": "CommitId#"
        }
      }
    },
    "query": null,
    "body": null,
    "bodyLimit": 0,
    "replies": {
      "200": {
        "$ref": "CommitStatuses#"
      },
      "304": null,
      "401": {
        "$ref": "Error#"
      },
      "403": {
        "$ref": "Error#"
      },
      "404": {
        "$ref": "Error#"
      },
      "422": {
        "$ref": "Error#"
      },
      "429": {
        "$ref": "Error#"
      },
      "503": {
        "$ref": "Error#"
      }
    },
    "headers": {}
  },
  "getVerdict": {
    "method": "GET",
    "path": "/api/v1/repos/{owner}/{repo}/commits/{sha}/verdict",
    "url": "/api/v1/repos/:owner/:repo/commits/:sha/verdict",
    "access": "read",
    "anonymous": true,
    "schemes": [
      "bearerToken",
      "accessToken"
    ],
    "scopes": [
      "repo"
    ],
    "params": {
      "type": "object",
      "required": [
        "owner",
        "repo",
        "sha"
      ],
      "properties": {
        "owner": {
          "$ref": "Name#"
        },
        "repo": {
          "$ref": "Name#"
        },
        "sha": {
          "$ref": "CommitId#"
        }
      }
    },
    "query": {
      "type": "object",
      "required": [],
      "properties": {
        "require": {
          "type": "array",
          "maxItems": 50,
          "items": {
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
          }
        },
        "branch": {
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
        "wait": {
          "type": "integer",
          "minimum": 0,
          "maximum": 25,
          "default": 0
        }
      }
    },
    "body": null,
    "bodyLimit": 0,
    "replies": {
      "200": {
        "$ref": "CommitVerdict#"
      },
      "304": null,
      "401": {
        "$ref": "Error#"
      },
      "403": {
        "$ref": "Error#"
      },
      "404": {
        "$ref": "Error#"
      },
      "422": {
        "$ref": "Error#"
      },
      "429": {
        "$ref": "Error#"
      },
      "503": {
        "$ref": "Error#"
      }
    },
    "headers": {}
  },
  "getLastPassed": {
    "method": "GET",
    "path": "/api/v1/repos/{owner}/{repo}/last-passed",
    "url": "/api/v1/repos/:owner/:repo/last-passed",
    "access": "read",
    "anonymous": true,
    "schemes": [
      "bearerToken",
      "accessToken"
    ],
    "scopes": [
      "repo"
    ],
    "params": {
      "type": "object",
      "required": [
        "owner",
        "repo"
      ],
      "properties": {
        "owner": {
          "$ref": "Name#"
        },
        "repo": {
          "$ref": "Name#"
        }
      }
    },
    "query": {
      "type": "object",
      "required": [
        "branch"
      ],
      "properties": {
        "branch": {
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
        "require": {
          "type": "array",
          "maxItems": 50,
          "items": {
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
          }
        },
        "unless": {
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
        "after": {
          "type": "string",
          "description": "Full commit id.",
          "pattern": "^(?:[0-9A-Fa-f]{40}|[0-9A-Fa-f]{64})$",
          "x-rule": "must be a full commit id of 40 (SHA-1) or 64 (SHA-256) hex digits",
          "examples": [
            "2c26b46b68ffc68ff99b453c1d30413413422d70"
          ]
        }
      }
    },
    "body": null,
    "bodyLimit": 0,
    "replies": {
      "200": {
        "$ref": "LastPassed#"
      },
      "304": null,
      "401": {
        "$ref": "Error#"
      },
      "403": {
        "$ref": "Error#"
      },
      "404": {
        "$ref": "Error#"
      },
      "422": {
        "$ref": "Error#"
      },
      "429": {
        "$ref": "Error#"
      },
      "503": {
        "$ref": "Error#"
      }
    },
    "headers": {
      "200": {
        "type": "object",
        "required": [],
        "properties": {
          "Link": {
            "type": "string",
            "pattern": "^<[^<>]+>; rel=\"next\"$"
          }
        },
        "additionalProperties": false
      }
    }
  },
  "listBranches": {
    "method": "GET",
    "path": "/api/v1/repos/{owner}/{repo}/branches",
    "url": "/api/v1/repos/:owner/:repo/branches",
    "access": "read",
    "anonymous": true,
    "schemes": [
      "bearerToken",
      "accessToken"
    ],
    "scopes": [
      "repo"
    ],
    "params": {
      "type": "object",
      "required": [
        "owner",
        "repo"
      ],
      "properties": {
        "owner": {
          "$ref": "Name#"
        },
        "repo": {
          "$ref": "Name#"
        }
      }
    },
    "query": {
      "type": "object",
      "required": [],
      "properties": {
        "match": {
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
        "verdict": {
          "type": "string",
          "enum": [
            "pending",
            "success",
            "failure"
          ]
        },
        "limit": {
          "type": "integer",
          "minimum": 1,
          "maximum": 30,
          "default": 30
        },
        "after": {
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
        }
      }
    },
    "body": null,
    "bodyLimit": 0,
    "replies": {
      "200": {
        "$ref": "BranchPage#"
      },
      "304": null,
      "401": {
        "$ref": "Error#"
      },
      "403": {
        "$ref": "Error#"
      },
      "404": {
        "$ref": "Error#"
      },
      "422": {
        "$ref": "Error#"
      },
      "429": {
        "$ref": "Error#"
      },
      "503": {
        "$ref": "Error#"
      }
    },
    "headers": {
      "200": {
        "type": "object",
        "required": [],
        "properties": {
          "Link": {
            "type": "string",
            "pattern": "^<[^<>]+>; rel=\"next\"$"
          }
        },
        "additionalProperties": false
      }
    }
  },
  "listAwaiting": {
    "method": "GET",
    "path": "/api/v1/repos/{owner}/{repo}/awaiting",
    "url": "/api/v1/repos/:owner/:repo/awaiting",
    "access": "read",
    "anonymous": true,
    "schemes": [
      "bearerToken",
      "accessToken"
    ],
    "scopes": [
      "repo"
    ],
    "params": {
      "type": "object",
      "required": [
        "owner",
        "repo"
      ],
      "properties": {
        "owner": {
          "$ref": "Name#"
        },
        "repo": {
          "$ref": "Name#"
        }
      }
    },
    "query": {
      "type": "object",
      "required": [
        "context"
      ],
      "properties": {
        "context": {
          "type": "string",
          "minLength": 1,
          "pattern": "^[^\\x00]*$",
          "x-well-formed": true,
          "x-rule": "must not contain U+0000 or a lone surrogate",
          "maxLength": 255
        },
        "match": {
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
        "limit": {
          "type": "integer",
          "minimum": 1,
          "maximum": 30,
          "default": 30
        },
        "after": {
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
        }
      }
    },
    "body": null,
    "bodyLimit": 0,
    "replies": {
      "200": {
        "$ref": "AwaitingPage#"
      },
      "304": null,
      "401": {
        "$ref": "Error#"
      },
      "403": {
        "$ref": "Error#"
      },
      "404": {
        "$ref": "Error#"
      },
      "422": {
        "$ref": "Error#"
      },
      "429": {
        "$ref": "Error#"
      },
      "503": {
        "$ref": "Error#"
      }
    },
    "headers": {
      "200": {
        "type": "object",
        "required": [],
        "properties": {
          "Link": {
            "type": "string",
            "pattern": "^<[^<>]+>; rel=\"next\"$"
          }
        },
        "additionalProperties": false
      }
    }
  }
} as const
