// INCEPTIONN's decompressor (Li et al., MICRO 2018): a burst of eight float32 values a cycle, of
// payloads of the modes inceptionn-bounded and inceptionn-literal (docs/FORMAT.md, section 3.7).
//
// A beat in has 32 bytes of the payload, or fewer in the last one, tlast. A beat out has eight
// values, the first one lowest, or fewer in the last. tuser comes with tlast: bit 0 corrupt, bit 1
// non-finite; the values are then worth nothing, but as many. cfg_count is stable from the first
// beat of a segment until its last one has left.
//
// Where a group ends is known only from its tags, and where the next begins only then. So what would
// be the length of a group is found ahead of that, for each byte that one could begin with.
module tern_inceptionn_decode (
    input  logic         clk,
    input  logic         rst,
    input  logic [ 28:0] cfg_count,      // values, at least 1
    input  logic [255:0] s_axis_tdata,
    input  logic [ 31:0] s_axis_tkeep,
    input  logic         s_axis_tlast,
    input  logic         s_axis_tvalid,
    output logic         s_axis_tready,
    output logic [255:0] m_axis_tdata,
    output logic [ 31:0] m_axis_tkeep,
    output logic         m_axis_tlast,
    output logic [  1:0] m_axis_tuser,
    output logic         m_axis_tvalid,
    input  logic         m_axis_tready
);
  localparam LANES = 8, BYTES = 32;
  localparam [7:0] MODE_BOUNDED = 8'h50, MODE_LITERAL = 8'h51;

  // Bytes of the fields of four tags.
  function automatic [4:0] size_of_four(input logic [7:0] tags);
    size_of_four = {1'd0, size_of_two(tags[3:0])} + {1'd0, size_of_two(tags[7:4])};
  endfunction

  function automatic [3:0] size_of_two(input logic [3:0] tags);
    size_of_two = {1'd0, size_of(tags[1:0])} + {1'd0, size_of(tags[3:2])};
  endfunction

  function automatic [2:0] size_of(input logic [1:0] tag);
    size_of = tag == 2'd3 ? 3'd4 : {1'b0, tag};
  endfunction

  // --- Beats on their way to the window

  logic [255:0] data_in;
  logic [31:0] keep_in;
  logic valid_in, ready_in, last_in;
  tern_slice #(
      .WIDTH(289)
  ) in (
      .clk(clk),
      .rst(rst),
      .s_data({s_axis_tlast, s_axis_tkeep, s_axis_tdata}),
      .s_valid(s_axis_tvalid),
      .s_ready(s_axis_tready),
      .m_data({last_in, keep_in, data_in}),
      .m_valid(valid_in),
      .m_ready(ready_in)
  );

  // a: waits for the byte behind it; b: fields of the four tags of each byte; c: lengths of groups
  logic va, vb, vc, lasta, lastb, lastc;
  logic [255:0] dataa, datab, datac;
  logic [5:0] counta, countb, countc;  // bytes of the beat
  logic [(BYTES+1)*5-1:0] sizesb;
  logic [BYTES*6-1:0] lengthsc;
  logic moves;  // b and c
  logic leavesa;
  assign leavesa = va && moves && (lasta || valid_in);
  assign ready_in = !va || leavesa;

  integer n;
  always_ff @(posedge clk) begin
    if (rst) begin
      {va, vb, vc} <= 0;
    end else begin
      if (ready_in) begin
        va <= valid_in;
      end
      if (moves) begin
        vb <= leavesa;
        vc <= vb;
      end
    end
    if (ready_in) begin
      {lasta, dataa} <= {last_in, data_in};
      counta <= bytes_of(keep_in);
    end
    if (moves) begin
      {lastb, countb, datab} <= {lasta, counta, dataa};
      for (n = 0; n < BYTES; n = n + 1) begin
        sizesb[5*n+:5] <= size_of_four(dataa[8*n+:8]);
      end
      sizesb[5*BYTES+:5] <= size_of_four(data_in[7:0]);
      {lastc, countc, datac} <= {lastb, countb, datab};
      for (n = 0; n < BYTES; n = n + 1) begin
        lengthsc[6*n+:6] <= 6'd2 + {1'b0, sizesb[5*n+:5]} + {1'b0, sizesb[5*n+5+:5]};
      end
    end
  end

  // Bits are set from the lowest on.
  function automatic [5:0] bytes_of(input logic [31:0] keep);
    bytes_of = 0;
    for (integer b = 0; b < 32; b = b + 1) begin
      bytes_of = bytes_of + {5'd0, keep[b]};
    end
  endfunction

  // --- The window: two beats and the first byte of a third one; where the next group begins

  logic advance;  // all stages behind the window move
  logic v0, v1, last0, last1;
  logic [255:0] data0, data1;
  logic [5:0] count0, count1;
  logic [BYTES*6-1:0] lengths0, lengths1;

  localparam [1:0] HEAD = 2'd0, GROUPS = 2'd1, REST = 2'd2;
  logic [1:0] state;
  logic [5:0] at;  // of the next group: 0 to 33, from 32 on in the second beat
  logic over;  // the payload has ended, though groups are missing
  logic [25:0] groups;  // to come
  logic last_group;
  logic literal;
  logic [4:0] bound;
  logic bad_head;

  logic seen, issues, shifts, drops;
  logic [6:0] after;  // where the group ends: at most 65
  // The window holds the whole group, or all that there is.
  assign seen = v0 && (last0 || (v1 && (last1 || vc)));
  assign issues = advance && state == GROUPS && (over || (seen && !at[5]));
  assign after = {2'd0, at[4:0]} + {1'b0, lengths0[6*at[4:0]+:6]};
  assign shifts = v0 && (state == REST || (advance && state == GROUPS && seen && !over
                  && (at[5] || after[6:5] != 0)));
  assign drops = shifts && last0;
  assign moves = !vc || !v0 || shifts || !v1;

  always_ff @(posedge clk) begin
    if (rst) begin
      v0 <= 0;
      v1 <= 0;
    end else begin
      if (!v0 || shifts) begin
        v0 <= v1;
      end
      if (!v0 || shifts || !v1) begin
        v1 <= vc;
      end
    end
    if (!v0 || shifts) begin
      {last0, count0, data0, lengths0} <= {last1, count1, data1, lengths1};
    end
    if (!v0 || shifts || !v1) begin
      {last1, count1, data1, lengths1} <= {lastc, countc, datac, lengthsc};
    end
  end

  logic [28:0] groups_of_all;
  assign groups_of_all = cfg_count + 29'd7;
  logic unused;
  assign unused = ^groups_of_all[2:0];
  always_ff @(posedge clk) begin
    if (rst) begin
      state <= HEAD;
    end else if (state == HEAD) begin
      state <= v0 ? GROUPS : HEAD;
    end else if (state == GROUPS) begin
      if (issues && last_group) begin
        state <= over || drops ? HEAD : REST;
      end
    end else if (drops) begin
      state <= HEAD;
    end

    if (state == HEAD) begin
      over <= 0;
      literal <= data0[7:0] == MODE_LITERAL;
      bound <= data0[12:8];
      bad_head <= data0[7:0] != MODE_LITERAL && (data0[7:0] != MODE_BOUNDED || data0[15:8] < 4 || data0[15:8] > 20);
      at <= data0[7:0] == MODE_LITERAL ? 6'd1 : 6'd2;
      groups <= groups_of_all[28:3];
      last_group <= groups_of_all[28:3] == 1;
    end else if (state == GROUPS) begin
      if (drops) begin
        over <= 1;
      end
      if (issues) begin
        at <= {after[6], after[4:0]};
        groups <= groups - 26'd1;
        last_group <= groups == 2;
      end else if (shifts) begin
        at <= {1'b0, at[4:0]};
      end
    end
  end

  // --- What goes with a group through the stages

  localparam STAGES = 8;
  logic [STAGES:1] valid, last, corrupt_at;
  logic [6:0] after1, end1;  // where it ends, and where the payload does
  logic over1, bad1;
  logic [2:0] few;
  assign few = cfg_count[2:0];
  logic wrong_end, wrong_tags;
  assign wrong_end = bad1 || over1 || after1 > end1 || (last[1] && after1 != end1);
  always_ff @(posedge clk) begin
    if (rst) begin
      valid <= 0;
    end else if (advance) begin
      valid <= {valid[STAGES-1:1], issues};
    end
    if (advance) begin
      last <= {last[STAGES-1:1], last_group};
      after1 <= after;
      end1 <= last0 ? {1'b0, count0} : last1 ? 7'd32 + {1'b0, count1} : lastc ? 7'd64 + {1'b0, countc} : 7'd127;
      over1 <= over;
      bad1 <= bad_head;
      corrupt_at <= {corrupt_at[7:4], corrupt_at[3] || wrong_tags, corrupt_at[2], wrong_end, 1'b0};
    end
  end

  // --- 1 and 2: the group's bytes

  logic [327:0] near1;
  logic [271:0] group2;
  logic [2:0] at1;
  logic [519:0] window;
  assign window = {datac[7:0], data1, data0};
  // Of the formats' parameters, as of the values that are there, each stage has its own.
  logic literal1, literal2, literal3, literal4, literal5;
  logic [4:0] bound1, bound2, bound3, bound4, bound5;
  always_ff @(posedge clk) begin
    if (advance) begin
      case (at[4:3])
        2'd0: near1 <= window[327:0];
        2'd1: near1 <= window[391:64];
        2'd2: near1 <= window[455:128];
        default: near1 <= window[519:192];
      endcase
      at1 <= at[2:0];
      group2 <= 272'(near1 >> {at1, 3'd0});
      {literal1, literal2, literal3, literal4, literal5} <= {literal, literal1, literal2, literal3, literal4};
      {bound1, bound2, bound3, bound4, bound5} <= {bound, bound1, bound2, bound3, bound4};
    end
  end

  // --- 3: tags without a value are 0; 3 to 6: fields apart, in halves

  logic [7:0] present3, present4, present5, present6, present7, present8;
  logic [7:0] present2;
  always_comb begin
    for (integer b = 0; b < 8; b = b + 1) begin
      present2[b] = !last[2] || few == 0 || few > b[2:0];
    end
  end
  logic [15:0] tags3, tags4, tags5, tags6;
  logic [255:0] fields3, fields6;
  logic [4:0] half3;
  logic [127:0] low4, high4;
  logic [3:0] pair_low4, pair_high4;
  logic [255:0] quarters5;
  integer m;
  always_comb begin
    wrong_tags = 0;
    for (integer b = 0; b < 8; b = b + 1) begin
      if (!present3[b] && tags3[2*b+:2] != 0) begin
        wrong_tags = 1;
      end
    end
  end
  always_ff @(posedge clk) begin
    if (advance) begin
      fields3 <= group2[271:16];
      tags3 <= group2[15:0];
      half3 <= size_of_four(group2[7:0]);
      low4 <= fields3[127:0];
      high4 <= 128'(fields3 >> {half3, 3'd0});
      pair_low4 <= size_of_two(tags3[3:0]);
      pair_high4 <= size_of_two(tags3[11:8]);
      quarters5 <= {
        64'(high4 >> {pair_high4, 3'd0}), high4[63:0], 64'(low4 >> {pair_low4, 3'd0}), low4[63:0]
      };
      for (m = 0; m < 4; m = m + 1) begin
        fields6[64*m+:32] <= quarters5[64*m+:32];
        fields6[64*m+32+:32] <= behind_value(quarters5[64*m+:64], tags5[4*m+:2]);
      end
      {tags6, tags5, tags4} <= {tags5, tags4, tags3};
      {present8, present7, present6, present5, present4, present3}
          <= {present7, present6, present5, present4, present3, present2};
    end
  end

  function automatic [31:0] behind_value(input logic [63:0] both, input logic [1:0] tag);
    case (tag)
      2'd0: behind_value = both[31:0];
      2'd1: behind_value = both[39:8];
      2'd2: behind_value = both[47:16];
      default: behind_value = both[63:32];
    endcase
  endfunction

  // --- 6 to 8: each value by itself

  logic [255:0] values8;
  logic [LANES-1:0] non_finite8;
  logic [7:0] top6, top_wide6, top5;
  assign top5 = literal5 ? 8'd134 : 8'd142 - {3'd0, bound5};
  always_ff @(posedge clk) begin
    if (advance) begin
      top6 <= top5;
      top_wide6 <= literal5 ? 8'd126 : top5;
    end
  end
  genvar i;
  generate
    for (i = 0; i < LANES; i = i + 1) begin : lane
      tern_inceptionn_value unpack (
          .clk(clk),
          .advance(advance),
          .tag(tags6[2*i+:2]),
          .field(fields6[32*i+:32]),
          .top_8(top6),
          .top_16(top_wide6),
          .value(values8[32*i+:32]),
          .non_finite(non_finite8[i])
      );
    end
  endgenerate

  // --- The facts of a segment come with its last beat

  logic corrupt, non_finite;  // of the groups before
  logic corrupt_now, non_finite_now;
  assign corrupt_now = corrupt || corrupt_at[STAGES];
  assign non_finite_now = non_finite || (|(non_finite8 & present8));
  always_ff @(posedge clk) begin
    if (rst) begin
      corrupt <= 0;
      non_finite <= 0;
    end else if (advance && valid[STAGES]) begin
      corrupt <= !last[STAGES] && corrupt_now;
      non_finite <= !last[STAGES] && non_finite_now;
    end
  end

  logic [LANES-1:0] out_present;
  tern_slice #(
      .WIDTH(267)
  ) out (
      .clk(clk),
      .rst(rst),
      .s_data({last[STAGES], non_finite_now, corrupt_now, present8, values8}),
      .s_valid(valid[STAGES]),
      .s_ready(advance),
      .m_data({m_axis_tlast, m_axis_tuser, out_present, m_axis_tdata}),
      .m_valid(m_axis_tvalid),
      .m_ready(m_axis_tready)
  );
  always_comb begin
    for (integer b = 0; b < LANES; b = b + 1) begin
      m_axis_tkeep[4*b+:4] = {4{out_present[b]}};
    end
  end
endmodule

// One value of its tag and field, after two stages. top_8 and top_16: the exponent of 2^14 steps.
module tern_inceptionn_value (
    input  logic        clk,
    input  logic        advance,
    input  logic [ 1:0] tag,
    input  logic [31:0] field,      // and what is behind it
    input  logic [ 7:0] top_8,
    input  logic [ 7:0] top_16,
    output logic [31:0] value,
    output logic        non_finite
);
  logic [14:0] k;
  assign k = tag == 2'd1 ? {8'd0, field[6:0]} : field[14:0];

  // 7: the highest bit that is set comes to one of the upper four
  logic [14:0] k7;
  logic [7:0] top7;
  logic [31:0] field7;
  logic [1:0] tag7;
  logic sign7;
  logic [7:0] top;
  assign top = tag == 2'd1 ? top_8 : top_16;
  always_ff @(posedge clk) begin
    if (advance) begin
      if (|k[14:11]) begin
        k7   <= k;
        top7 <= top;
      end else if (|k[10:7]) begin
        k7   <= {k[10:0], 4'd0};
        top7 <= top - 8'd4;
      end else if (|k[6:3]) begin
        k7   <= {k[6:0], 8'd0};
        top7 <= top - 8'd8;
      end else begin
        k7   <= {k[2:0], 12'd0};
        top7 <= top - 8'd12;
      end
      field7 <= field;
      tag7   <= tag;
      sign7  <= tag == 2'd1 ? field[7] : field[15];
    end
  end

  // 8: and to the highest, which a float32 does not write
  logic [22:0] fraction;
  logic [7:0] exponent;
  always_comb begin
    if (k7[14]) begin
      fraction = {k7[13:0], 9'd0};
      exponent = top7;
    end else if (k7[13]) begin
      fraction = {k7[12:0], 10'd0};
      exponent = top7 - 8'd1;
    end else if (k7[12]) begin
      fraction = {k7[11:0], 11'd0};
      exponent = top7 - 8'd2;
    end else begin
      fraction = {k7[10:0], 12'd0};
      exponent = k7[11] ? top7 - 8'd3 : 8'd0;  // k is 0
    end
  end
  always_ff @(posedge clk) begin
    if (advance) begin
      case (tag7)
        2'd0: value <= 32'd0;
        2'd3: value <= field7;
        default: value <= {sign7, exponent, fraction};
      endcase
      non_finite <= tag7 == 2'd3 && (&field7[30:23]);
    end
  end
endmodule
